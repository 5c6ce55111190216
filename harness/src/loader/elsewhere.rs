//! Takes the place of the dynamic loader on platforms where the CUDA driver is not watched. There
//! are no libraries to open.

use std::ffi::{CStr, c_void};
#[cfg(feature = "holders")]
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

use super::Changes;

pub(super) fn open(_file: &Path, _if_loaded: bool) -> Result<NonNull<c_void>, String> {
    Err("the CUDA driver is watched only on Linux".to_owned())
}

pub(super) unsafe fn function<F: Copy>(_library: NonNull<c_void>, _name: &CStr) -> Option<F> {
    None
}

pub(crate) const fn beside(_function: *const (), _name: &CStr) -> *const () {
    ptr::null()
}

pub(crate) const fn keep_loaded_with(_name: &CStr) {}

pub(crate) const fn changes() -> Changes {
    (0, 0)
}

pub(crate) const fn exported(_address: usize) -> Option<String> {
    None
}

pub(crate) const fn modules() -> Vec<PathBuf> {
    Vec::new()
}

#[cfg(feature = "holders")]
pub(crate) const fn writable_parts() -> Vec<Range<u64>> {
    Vec::new()
}
