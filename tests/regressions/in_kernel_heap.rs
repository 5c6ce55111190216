//! The heap that kernels allocate from: a limit of this tool, and proof of it.

use std::ptr;

use cudarc::driver::result::stream;
use cudarc::driver::sys;
use gpu_leak_check::gpu_leak_check;
use gpu_leak_tests::gpu;

use super::run;
use crate::kinds::planted::{code, context};

/// Each thread takes 64 bytes and forgets them.
const FORGETFUL: &std::ffi::CStr = c"
.version 7.0
.target sm_60
.address_size 64
.extern .func (.param .b64 result) malloc (.param .b64 bytes);
.visible .entry forgets()
{
    .reg .b64 %pointer;
    .param .b64 bytes;
    .param .b64 result;
    st.param.b64 [bytes], 64;
    call.uni (result), malloc, (bytes);
    ld.param.b64 %pointer, [result];
    st.global.b8 [%pointer], 1;
    ret;
}
";

/// An array that each thread of each launch takes from the heap inside the device, and nobody frees. The heap is
/// set aside when the kernel is loaded: the driver's figures stay the same to the byte, and no call tells.
/// <https://github.com/NVIDIA/numba-cuda-mlir/issues/247>
#[test]
fn numba_cuda_mlir_247_is_not_seen() {
    // On the stand-in, kernels do nothing.
    if gpu::is_present() {
        run(module_path!(), "child_that_launches_twice").assert_clean();
    }
}

#[test]
#[ignore = "run in a process of its own"]
fn child_that_launches_twice() {
    context();
    // The first launch sets the heap aside.
    let kernel = forgetful();
    launch(kernel);
    let before = free_bytes();
    FORGETS.set(kernel.expose_provenance()).expect("the first");
    forgets();
    assert_eq!(
        free_bytes(),
        before,
        "a figure that tells would be a way to see it"
    );
}

static FORGETS: std::sync::OnceLock<usize> = std::sync::OnceLock::new();

#[gpu_leak_check]
#[ignore = "needs the kernel of its caller"]
#[test]
fn forgets() {
    context();
    launch(ptr::with_exposed_provenance_mut(
        *FORGETS.get().expect("the caller loads it"),
    ));
}

fn forgetful() -> sys::CUfunction {
    let module = code::load(FORGETFUL);
    let mut kernel = ptr::null_mut();
    // SAFETY: the module lives, and the kernel is written.
    let done = unsafe { sys::cuModuleGetFunction(&mut kernel, module, c"forgets".as_ptr()) };
    done.result().expect("a kernel of the module");
    kernel
}

fn launch(kernel: sys::CUfunction) {
    let (none, null) = (ptr::null_mut(), stream::null());
    // SAFETY: a kernel without parameters.
    unsafe {
        let launched =
            sys::cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, null, none, ptr::null_mut());
        launched.result().expect("a launch");
        stream::synchronize(null).expect("an end");
    }
}

fn free_bytes() -> usize {
    cudarc::driver::result::mem_get_info().expect("a context").0
}
