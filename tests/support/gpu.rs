//! Whether this machine has a GPU.

use std::env;
use std::sync::OnceLock;

use cudarc::driver::{CudaContext, sys};
use gpu_leak_check::report::check_report::WholeDevice;

/// Whether a CUDA device can be used and `GPU_TESTS` is not `fake`.
#[must_use]
pub fn is_present() -> bool {
    count() > 0
}

/// Whether no other process used CUDA when the figures of the whole device were read.
#[must_use]
pub fn is_alone(whole: &WholeDevice) -> bool {
    !whole.hints.iter().any(|hint| hint.contains("CUDA"))
}

/// The number of CUDA devices that can be used, or 0 if `GPU_TESTS` is `fake`.
#[must_use]
pub fn count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| {
        // Looks for the library first, because cudarc panics if a function is missing.
        if env::var_os("GPU_TESTS").is_some_and(|value| value == "fake") || !library_is_present() {
            return 0;
        }
        let count = CudaContext::device_count().unwrap_or(0);
        usize::try_from(count).unwrap_or(0)
    })
}

#[expect(unsafe_code, reason = "cudarc's query opens and closes the library")]
fn library_is_present() -> bool {
    // SAFETY: loading and unloading libcuda have no preconditions, and nothing in it is used in
    // between.
    unsafe { sys::is_culib_present() }
}
