//! The figures of the whole device are advisory. They decide no verdict, and the harness never
//! creates a context to read them.

#![expect(unsafe_code, reason = "launches a kernel")]

use cudarc::driver::{LaunchConfig, PushKernelArg};
use cudarc::nvrtc::compile_ptx;
use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::{CheckStatus, Part, Purpose};
use gpu_leak_tests::checked;
use gpu_leak_tests::fake::{Control, Fake};
use gpu_leak_tests::gpu;

use super::driver::{allocate, context, free};

const HERE: &str = "boundary::whole::";
const BYTES: usize = 4 << 20;
const ONE_THREAD: LaunchConfig = LaunchConfig {
    grid_dim: (1, 1, 1),
    block_dim: (1, 1, 1),
    shared_mem_bytes: 0,
};

#[test]
fn the_device_memory_of_a_leak_is_accounted_for() {
    let checked = checked::run(&format!("{HERE}uses_the_device_and_leaks"));
    let output = checked.output();
    let [first, second] = &checked.reports[..] else {
        panic!("{output}")
    };
    assert_eq!(first.status, CheckStatus::Clean, "{output}");
    assert_eq!(first.devices[0].whole, None, "no context before: {output}");
    let whole = second.devices[0].whole.as_ref();
    let whole = whole.expect("a context before");
    let taken = Part {
        purpose: Purpose::Driver,
        bytes: BYTES as i64,
    };
    assert!(whole.parts.contains(&taken), "{output}");
    if !gpu::is_present() {
        assert_eq!(whole.unexplained, 0, "{output}");
        let line = "device used +4.00 MiB: driver +4.00 MiB\n";
        assert!(checked.child.stderr.contains(line), "{output}");
    }
}

#[test]
fn a_test_that_creates_the_context_gets_figures_of_its_second_run() {
    let checked = checked::on(&Fake::new(), &format!("{HERE}leaks"));
    let output = checked.output();
    let whole = checked.report().devices[0].whole.as_ref().expect("a line");
    assert!(whole.second_run, "{output}");
    let line = "device used +4.00 MiB in the second run: driver +4.00 MiB\n";
    assert!(checked.child.stderr.contains(line), "{output}");
}

#[test]
#[ignore = "run in a process of its own"]
fn uses_the_device_and_leaks() {
    // The first check creates the context. Its bytes do not belong to that check, which could not
    // read the device before the context existed.
    uses_the_device();
    std::panic::catch_unwind(leaks).expect_err("a leak fails its test");
}

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn uses_the_device() {
    context();
    free(allocate(BYTES).unwrap()).unwrap();
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks() {
    context();
    allocate(BYTES).unwrap();
}

#[test]
fn no_context_is_created_on_a_device_without_one() {
    let fake = Fake::new().devices(2);
    checked::on(&fake, &format!("{HERE}uses_one_of_two_devices")).assert_clean();
}

#[test]
#[ignore = "run on the stand-in"]
fn uses_one_of_two_devices() {
    uses_the_device();
    uses_the_device();
    let control = Control::of_this_process().expect("the stand-in");
    assert_eq!(control.contexts_made(), 1);
}

#[test]
fn unexplained_device_memory_is_reported_and_fails_nothing() {
    let fake = Fake::new().fault("launch_grows:8388608");
    let checked = checked::on(&fake, &format!("{HERE}uses_the_device_and_launches"));
    checked.assert_clean();
    let output = checked.output();
    let whole = checked.reports[1].devices[0].whole.as_ref();
    let whole = whole.expect("a context before");
    assert_eq!(
        (whole.parts.len(), whole.unexplained),
        (0, 8 << 20),
        "{output}"
    );
}

#[test]
#[ignore = "run where the first launch takes memory"]
fn uses_the_device_and_launches() {
    uses_the_device();
    launches();
}

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn launches() {
    let context = context();
    let module = context.load_module("".into()).expect("a module");
    let kernel = module.load_function("any").expect("a kernel");
    let stream = context.default_stream();
    // SAFETY: the stand-in runs no code in a launch.
    unsafe { stream.launch_builder(&kernel).launch(ONE_THREAD) }.expect("a launch");
    stream.synchronize().expect("an end");
}

/// Needs a real driver, because the stand-in reserves no local memory.
#[test]
fn the_local_memory_of_a_kernel_is_accounted_for() {
    if !gpu::is_present() {
        return;
    }
    let checked = checked::run(&format!("{HERE}uses_the_device_and_its_local_memory"));
    let output = checked.output();
    let [_, report] = &checked.reports[..] else {
        panic!("{output}")
    };
    let whole = report.devices[0].whole.as_ref();
    let whole = whole.expect("a context before");
    let local = |part: &&Part| part.purpose == Purpose::LocalMemory;
    let local = whole.parts.iter().find(local).map_or(0, |part| part.bytes);
    assert!(local > 0, "{whole:?}\n{output}");
    let is_small = whole.unexplained.abs() < local / 10;
    assert!(is_small || !gpu::is_alone(whole), "{whole:?}\n{output}");
}

#[test]
#[ignore = "run in a process of its own"]
fn uses_the_device_and_its_local_memory() {
    uses_the_device();
    uses_local_memory();
}

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn uses_local_memory() {
    const KERNEL: &str = r#"
        extern "C" __global__ void fill(int *out, int n) {
            volatile int local[1024];
            for (int i = 0; i < 1024; i++) local[i] = i * n;
            out[0] = local[n];
        }
    "#;
    let context = context();
    let stream = context.default_stream();
    let code = compile_ptx(KERNEL).expect("NVRTC");
    let module = context.load_module(code).expect("a module");
    let kernel = module.load_function("fill").expect("a kernel");
    let mut out = stream.alloc_zeros::<i32>(1).expect("memory");
    // SAFETY: the kernel writes the only element of `out`, which lives until the stream is
    // synchronised.
    unsafe {
        stream
            .launch_builder(&kernel)
            .arg(&mut out)
            .arg(&7_i32)
            .launch(ONE_THREAD)
            .expect("a launch");
    }
    stream.synchronize().expect("an end");
}
