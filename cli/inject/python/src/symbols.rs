//! Looks up symbols that the interpreter exports, so that nothing is linked against Python.

#![expect(unsafe_code, reason = "looks up symbols of C libraries")]

use std::ffi::{CStr, c_void};
use std::mem::transmute_copy;

/// Returns the exported function with this name.
///
/// # Safety
///
/// `F` must be the function pointer type of the function with this name.
pub(crate) unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the caller guarantees the type, which has the size of a pointer.
    address(name).map(|address| unsafe { transmute_copy::<*mut c_void, F>(&address) })
}

/// Returns the address of the exported symbol with this name.
pub(crate) fn address(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: this only looks up a symbol.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}
