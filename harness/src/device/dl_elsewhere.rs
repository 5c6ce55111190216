//! For platforms where the CUDA driver is not watched: there are no libraries to open.

use std::convert::Infallible;
use std::ffi::CStr;
use std::path::{Path, PathBuf};

/// A shared library, of which there is none.
#[derive(Debug)]
pub(crate) struct Library(Infallible);

impl Library {
    /// Always fails.
    ///
    /// # Errors
    ///
    /// Always.
    pub(crate) fn open(_file: &Path) -> Result<Self, String> {
        Err("the CUDA driver is watched on Linux only".to_owned())
    }

    /// Always returns `None`.
    pub(crate) fn loaded(_file: &Path) -> Option<Self> {
        None
    }

    /// Cannot be called, because there is no library.
    ///
    /// # Safety
    ///
    /// None.
    #[expect(unsafe_code, reason = "the same interface as on Linux")]
    pub(crate) unsafe fn function<F: Copy>(&self, _name: &CStr) -> Option<F> {
        match self.0 {}
    }
}

/// Always returns null.
pub(crate) fn beside(_function: *const (), _name: &CStr) -> *const () {
    std::ptr::null()
}

/// Does nothing, because no library is open.
pub(crate) fn keep_loaded_with(_name: &CStr) {}

/// How many libraries have been loaded and unloaded so far.
pub(crate) type Changes = (u64, u64);

/// Always returns zeros.
pub(crate) fn changes() -> Changes {
    (0, 0)
}

/// Always returns `None`.
pub(crate) fn exported(_address: usize) -> Option<String> {
    None
}

/// Always returns an empty list, because no shared library is relevant here.
pub(crate) fn modules() -> Vec<PathBuf> {
    Vec::new()
}
