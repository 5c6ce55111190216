//! Where the CUDA driver is not watched: there are no libraries to open.

use std::convert::Infallible;
use std::ffi::CStr;
use std::path::{Path, PathBuf};

/// A shared library; there is none.
#[derive(Debug)]
pub(crate) struct Library(Infallible);

impl Library {
    /// Opens nothing.
    ///
    /// # Errors
    ///
    /// Always.
    pub(crate) fn open(_file: &Path) -> Result<Self, String> {
        Err("the CUDA driver is watched on Linux only".to_owned())
    }

    /// Finds nothing.
    pub(crate) fn loaded(_file: &Path) -> Option<Self> {
        None
    }

    /// Never called, either.
    ///
    /// # Safety
    ///
    /// No conditions.
    #[expect(unsafe_code, reason = "the same interface as on Linux")]
    pub(crate) unsafe fn function<F: Copy>(&self, _name: &CStr) -> Option<F> {
        match self.0 {}
    }
}

/// How many libraries were loaded and unloaded so far: nobody counts them.
pub(crate) type Changes = ();

/// Always the same.
pub(crate) fn changes() -> Changes {}

/// No function is known.
pub(crate) fn exported(_address: usize) -> Option<String> {
    None
}

/// No shared library matters here.
pub(crate) fn modules() -> Vec<PathBuf> {
    Vec::new()
}
