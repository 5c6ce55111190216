//! The same functions for targets where look-ups are not intercepted: they report nothing.
#![expect(unsafe_code, reason = "the same contracts everywhere")]
#![expect(
    missing_docs,
    clippy::missing_safety_doc,
    reason = "they are in process.rs"
)]

use std::ffi::{CStr, c_void};

use crate::interface::{BindingsPastUs, HeapWatch, Reach, Registration, UnheardCalls};

pub fn register(_table: &'static Registration) -> Reach {
    Reach::Nothing
}

#[must_use]
pub unsafe fn wrapper_by_address(_: &CStr, real: *const (), _: Option<&CStr>) -> *const () {
    real
}

#[must_use]
pub unsafe fn real_symbol(handle: *mut c_void, name: &CStr) -> *const () {
    #[cfg(unix)]
    // SAFETY: the caller keeps the contract; the name is a C string.
    return unsafe { libc::dlsym(handle, name.as_ptr()) }
        .cast_const()
        .cast();
    #[cfg(not(unix))]
    {
        let _ = (handle, name);
        std::ptr::null()
    }
}

#[must_use]
pub fn bindings_past_us(_since: usize) -> BindingsPastUs {
    BindingsPastUs::default()
}

#[must_use]
pub fn unheard_calls() -> Vec<UnheardCalls> {
    Vec::new()
}

#[must_use]
pub fn libraries_elsewhere() -> Vec<String> {
    Vec::new()
}

pub fn watch_heap(_watch: Option<&'static HeapWatch>) -> bool {
    false
}

pub const fn is_heap_watched() -> bool {
    false
}
