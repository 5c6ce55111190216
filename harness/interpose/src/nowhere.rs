//! The same functions for builds in which nothing is defined: they report nothing.
#![expect(unsafe_code, reason = "the same contracts everywhere")]
#![expect(
    missing_docs,
    clippy::missing_safety_doc,
    reason = "they are in the files of glibc/"
)]

use std::ffi::{CStr, c_void};

use crate::interface::{
    BindingsPastUs, HeapWatch, MarkedThread, Reach, Registration, UnheardCalls,
};

pub fn register(_table: &'static Registration) -> Reach {
    Reach::Nothing
}

pub unsafe fn wrapper_by_address(_: &CStr, real: *const (), _: Option<&CStr>) -> *const () {
    real
}

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

pub fn bindings_past_us(_since: usize) -> BindingsPastUs {
    BindingsPastUs::default()
}

pub fn unheard_calls() -> Vec<UnheardCalls> {
    Vec::new()
}

pub fn libraries_elsewhere() -> Vec<String> {
    Vec::new()
}

pub fn watch_heap(_watch: Option<&'static HeapWatch>) -> bool {
    false
}

pub const fn is_heap_watched() -> bool {
    false
}

pub(crate) const fn link_threads() {}

pub const fn before_next_thread(_first: fn()) {}

pub const fn mark_threads(_mark: fn() -> u64) {}

pub const fn live(_token: u64) -> usize {
    0
}

pub const fn marked_threads() -> Vec<MarkedThread> {
    Vec::new()
}

pub const fn started_without_token() -> u64 {
    0
}

pub const fn is_starting() -> bool {
    false
}
