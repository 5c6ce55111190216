//! Vulkan on a machine with CUDA. The Vulkan driver may use CUDA's driver for its own purposes.

use std::ffi::c_uint;
use std::mem;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::CheckStatus;
use gpu_leak_interpose::real_symbol;
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::fake::Fake;
use gpu_leak_vulkan_tests::{gpu, is_present};
use libloading::Library;
use libloading::os::unix::Library as UnixLibrary;

use super::WORKS;

/// Loads the stand-in for CUDA's driver.
fn cuda() -> Library {
    // SAFETY: the stand-in has no constructors.
    unsafe { Library::new("libcuda.so.1") }.expect("the stand-in")
}

/// Initialises CUDA's driver as NVIDIA's Vulkan driver does for ray tracing: through a function
/// that the harness does not see.
fn initialises_cuda_in_private() {
    let library = UnixLibrary::from(cuda()).into_raw();
    // SAFETY: the library stays open, and the function has this type and no preconditions.
    let result = unsafe {
        let found = real_symbol(library, c"cuInit");
        mem::transmute::<*const (), unsafe extern "C" fn(c_uint) -> c_uint>(found)(0)
    };
    assert_eq!(result, 0);
}

fn creates_a_fence_and_destroys_it() {
    let device = &gpu().device;
    // SAFETY: nothing uses the fence.
    unsafe {
        let fence = device.create_fence(&Default::default(), None);
        device.destroy_fence(fence.expect(WORKS), None);
    }
}

#[gpu_leak_check]
#[ignore = "needs the stand-in for CUDA's driver"]
#[test]
fn has_a_driver_that_uses_cuda() {
    initialises_cuda_in_private();
    creates_a_fence_and_destroys_it();
}

#[gpu_leak_check]
#[ignore = "needs the stand-in for CUDA's driver"]
#[test]
fn may_use_cuda_itself() {
    initialises_cuda_in_private();
    let library = cuda();
    // SAFETY: the function is not called.
    let found = unsafe { library.get::<unsafe extern "C" fn()>(b"cuMemAlloc_v2") };
    assert!(found.is_ok());
    creates_a_fence_and_destroys_it();
}

fn run(test: &str) -> Option<Checked> {
    // NVIDIA's Vulkan driver cannot use the stand-in for CUDA's driver.
    let is_possible = is_present() && !gpu().is_nvidias();
    is_possible.then(|| checked::finish(Fake::new().run(&format!("beside_cuda::{test}"))))
}

#[test]
fn cuda_calls_of_vulkan_s_driver_are_not_the_program_s() {
    if let Some(checked) = run("has_a_driver_that_uses_cuda") {
        checked.assert_clean();
    }
}

#[test]
fn a_program_that_can_call_a_driver_unheard_is_not_measured() {
    if let Some(checked) = run("may_use_cuda_itself") {
        let report = checked.report();
        assert_eq!(
            report.status,
            CheckStatus::NotMeasured,
            "{}",
            checked.output()
        );
    }
}
