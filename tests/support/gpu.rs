//! Whether this machine has a GPU.

use std::env;
use std::sync::OnceLock;

use cudarc::driver::{CudaContext, sys};

/// Whether a CUDA device can be used, and `GPU_TESTS` does not say `fake`.
#[must_use]
pub fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    *PRESENT.get_or_init(|| {
        // cudarc panics where a function is missing, so ask for the library first.
        env::var_os("GPU_TESTS").is_none_or(|value| value != "fake")
            && library_is_present()
            && CudaContext::device_count().is_ok_and(|count| count > 0)
    })
}

#[expect(unsafe_code, reason = "cudarc's question opens and closes the library")]
fn library_is_present() -> bool {
    // SAFETY: libcuda may be loaded and unloaded again; nothing of it is used meanwhile.
    unsafe { sys::is_culib_present() }
}
