//! The functions of this crate for builds in which no symbols are defined. They report nothing.
#![expect(unsafe_code, reason = "has the same contracts as on glibc")]
#![expect(
    missing_docs,
    clippy::missing_safety_doc,
    reason = "the contracts are documented in glibc/"
)]

use std::ffi::CStr;

use crate::interface::{BindingsPastUs, HeapWatch, MarkedThread, MissedCalls, Reach, Registration};
use crate::threads::TOKEN;

pub fn register(_table: &'static Registration) -> Reach {
    Reach::Nothing
}

pub unsafe fn wrapper_by_address(_: &CStr, real: *const (), _: Option<&CStr>) -> *const () {
    real
}

#[cfg(target_os = "linux")]
pub unsafe fn real_symbol(handle: *mut libc::c_void, name: &CStr) -> *const () {
    // SAFETY: the caller upholds the contract, and the name is a C string.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    found.cast_const().cast()
}

#[cfg(target_os = "linux")]
pub(crate) unsafe fn close(handle: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the caller upholds the contract.
    unsafe { libc::dlclose(handle) }
}

pub fn bindings_past_us(_since: usize) -> BindingsPastUs {
    BindingsPastUs::default()
}

pub fn missed_calls() -> Vec<MissedCalls> {
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

pub fn set_token(token: u64) -> u64 {
    TOKEN.replace(token)
}

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

pub fn uncancelled<T>(work: impl FnOnce() -> T) -> T {
    work()
}
