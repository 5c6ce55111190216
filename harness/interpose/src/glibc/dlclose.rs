//! Defines `dlclose`, because some facts about a library must be recorded before it is unloaded.
#![expect(unsafe_code, reason = "replaces a function of the C library")]

use std::ffi::{c_int, c_void};

use super::{bindings, next, registry};
use crate::loader::object_changes;

/// Closes a library, with the contract and result of
/// [`dlclose(3)`](https://man7.org/linux/man-pages/man3/dlclose.3.html).
///
/// # Safety
///
/// The condition is that of the manual page: `handle` comes from `dlopen` and has not been closed.
#[unsafe(no_mangle)]
unsafe extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    registry::on_close(false);
    let before = object_changes();
    // SAFETY: the caller upholds the contract.
    let result = unsafe { next::close(handle) };
    if object_changes().1 != before.1 {
        bindings::unloaded_since(before);
        registry::on_close(true);
    }
    result
}

/// Makes the linker keep `dlclose`, for the same reason as `pthread_create`.
pub(crate) fn link() {
    std::hint::black_box(dlclose as unsafe extern "C" fn(*mut c_void) -> c_int);
}
