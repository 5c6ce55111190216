//! The heap from which kernels allocate. This tool does not see it, which the test proves.

use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::result::stream;
use cudarc::driver::sys;
use gpu_leak_check::gpu_leak_check;
use gpu_leak_tests::gpu;

use super::run;
use crate::kinds::planted::{Pointer, code, context, memory};

/// A kernel that allocates 1 MiB, stores the address, and never frees the memory.
const FORGETFUL: &std::ffi::CStr = c"
.version 6.4
.target sm_75
.address_size 64
.extern .func (.param .b64 result) malloc (.param .b64 bytes);
.visible .entry forgets(.param .u64 where)
{
    .reg .b64 %pointer, %where;
    .param .b64 bytes;
    .param .b64 result;
    st.param.b64 [bytes], 1048576;
    call.uni (result), malloc, (bytes);
    ld.param.b64 %pointer, [result];
    ld.param.u64 %where, [where];
    st.u64 [%where], %pointer;
    ret;
}
";

/// Each launch allocates from the device heap, and nothing frees the memory. The heap is reserved
/// when the kernel is loaded, and no driver call reports what happens in it.
/// <https://github.com/NVIDIA/numba-cuda-mlir/issues/247>
#[test]
fn numba_cuda_mlir_247_is_not_seen() {
    // On the stand-in, kernels do nothing.
    if gpu::is_present() {
        run(module_path!(), "child_that_uses_the_heap_up").assert_clean();
    }
}

/// The launches need more than the 8 MiB that a device reserves for the heap by default.
const LAUNCHES: usize = 16;

#[test]
#[ignore = "run in a process of its own"]
fn child_that_uses_the_heap_up() {
    context();
    assert_ne!(launch(), 0, "there is room at first");
    for _ in 0..LAUNCHES {
        forgets();
    }
    assert_eq!(launch(), 0, "nothing came back");
}

#[gpu_leak_check]
#[ignore = "needs the kernel of its caller"]
#[test]
fn forgets() {
    context();
    launch();
}

/// Runs the kernel once, and returns the address that the kernel got, or 0.
fn launch() -> Pointer {
    static KERNEL: OnceLock<(usize, Pointer)> = OnceLock::new();
    let &(kernel, mut answer) = KERNEL.get_or_init(|| {
        let kernel = code::kernel(code::load(FORGETFUL), c"forgets");
        (kernel.expose_provenance(), memory::linear())
    });
    let kernel = ptr::with_exposed_provenance_mut(kernel);
    let (none, null) = (ptr::null_mut(), stream::null());
    let (mut parameters, mut got) = ([(&raw mut answer).cast()], 0);
    // SAFETY: the kernel writes eight bytes to device memory that is large enough.
    unsafe {
        let launched = sys::cuLaunchKernel(
            kernel,
            1,
            1,
            1,
            1,
            1,
            1,
            0,
            null,
            parameters.as_mut_ptr(),
            none,
        );
        launched.result().expect("a launch");
        let copied = sys::cuMemcpyDtoH_v2((&raw mut got).cast(), answer, size_of_val(&got));
        copied.result().expect("a copy");
    }
    got
}
