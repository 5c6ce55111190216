//! What a harness asks of the interposer of its process.
#![expect(unsafe_code, reason = "what is handed in will be called")]

use std::ffi::{CStr, c_void};

use crate::interface::{BindingsPastUs, Reach, Refused, Registration, UnheardCalls};
use crate::serving;

/// Has look-ups of the table's functions answered by their wrappers from now on, for as long as the
/// process lives. To be called once for each table, best from a constructor: what is looked up before
/// is not heard.
///
/// # Errors
///
/// Two rows have one name; or the process cannot take the table.
pub fn register(table: &'static Registration) -> Result<Reach, Refused> {
    serving::register(table)
}

/// What `dlsym` hands out for the function of exactly this name: the wrapper of its row; what counts
/// calls if that forwards to another function of the name, or if only variants of the name are known;
/// else `real`.
///
/// # Safety
///
/// `real` is a function of this name: wrappers call it from now on.
#[must_use]
pub unsafe fn wrapper_by_name(name: &CStr, real: *const ()) -> *const () {
    serving::by_name(name, real)
}

/// The same where a name stands for several functions, as in `cuGetProcAddress`: the row is that of
/// `name` or of a variant of it whose exported address, in the library that `real` lies in, is `real`.
/// If there is none, it is that of `fallback`: what headers say for the version that was asked for.
///
/// # Safety
///
/// `real` is the function that `cuGetProcAddress` or the like has answered for `name`, and of the
/// signature of `fallback`: wrappers call it from now on.
#[must_use]
pub unsafe fn wrapper_by_address(
    name: &CStr,
    real: *const (),
    fallback: Option<&CStr>,
) -> *const () {
    serving::by_address(name, real, fallback)
}

/// What the real `dlsym` answers, for calls of the harness's own, of which nobody is to hear.
///
/// # Safety
///
/// `handle` is one of `dlopen`'s, or one that `dlsym` takes in place of those.
#[must_use]
pub unsafe fn real_symbol(handle: *mut c_void, name: &CStr) -> *const () {
    serving::real(handle, name)
}

/// Rebinds what was loaded since the last call, so that calls of `dlsym` and of functions of a table
/// come to us, and says what had led past us: since `since`, or never for [`usize::MAX`].
///
/// It costs little while nothing is loaded. A call that went past us before is not heard.
#[must_use]
pub fn bindings_past_us(since: usize) -> BindingsPastUs {
    serving::bindings(since)
}

/// Calls of watched functions that no wrapper stands for: of variants that no table has, or of a
/// second driver. Each check compares them with what they were when it began.
#[must_use]
pub fn unheard_calls() -> Vec<UnheardCalls> {
    serving::unheard()
}

/// The files that were loaded into other namespaces, by `dlmopen` or for `LD_AUDIT`: they have a C
/// library and perhaps a driver of their own, of which nothing is heard.
#[must_use]
pub fn libraries_elsewhere() -> Vec<String> {
    serving::elsewhere()
}
