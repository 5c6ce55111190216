//! What a harness asks of the interposer of its process.
#![cfg_attr(lookups, expect(unsafe_code, reason = "asks the copy that serves"))]

use std::ffi::{CStr, c_void};

#[cfg(lookups)]
use crate::interface::BindingPastUs;
use crate::interface::{BindingsPastUs, Reach, Refused, Registration, UnheardCalls};
#[cfg(lookups)]
use crate::serving::{self, Reported, collect, serving};

/// Has look-ups of the table's functions answered by their wrappers from now on, for as long as the
/// process lives. To be called once for each table, best from a constructor: what is looked up before
/// is not heard.
///
/// # Errors
///
/// Two rows have one name; or the process cannot take the table.
pub fn register(table: &'static Registration) -> Result<Reach, Refused> {
    #[cfg(lookups)]
    return serving::register(table);
    #[cfg(not(lookups))]
    {
        let _ = table;
        Ok(Reach::Nothing)
    }
}

/// What `dlsym` hands out for the function of exactly this name: the wrapper of its row; what counts
/// calls if that forwards to another function of the name, or if only variants of the name are known;
/// else `real`.
///
/// # Safety
///
/// `real` is a function of this name: wrappers call it from now on.
#[must_use]
#[cfg_attr(
    not(lookups),
    expect(unsafe_code, reason = "the same contract everywhere")
)]
pub unsafe fn wrapper_by_name(name: &CStr, real: *const ()) -> *const () {
    #[cfg(lookups)]
    // SAFETY: a C string, and the caller keeps the contract.
    return unsafe { (serving().by_name)(name.as_ptr(), real) };
    #[cfg(not(lookups))]
    {
        let _ = name;
        real
    }
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
#[cfg_attr(
    not(lookups),
    expect(unsafe_code, reason = "the same contract everywhere")
)]
pub unsafe fn wrapper_by_address(
    name: &CStr,
    real: *const (),
    fallback: Option<&CStr>,
) -> *const () {
    #[cfg(lookups)]
    {
        let fallback = fallback.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: C strings, or null for the second one, and the caller keeps the contract.
        unsafe { (serving().by_address)(name.as_ptr(), real, fallback) }
    }
    #[cfg(not(lookups))]
    {
        let _ = (name, fallback);
        real
    }
}

/// What the real `dlsym` answers, for calls of the harness's own, of which nobody is to hear.
///
/// # Safety
///
/// `handle` is one of `dlopen`'s, or one that `dlsym` takes in place of those.
#[must_use]
#[cfg_attr(
    not(lookups),
    expect(unsafe_code, reason = "the same contract everywhere")
)]
pub unsafe fn real_symbol(handle: *mut c_void, name: &CStr) -> *const () {
    #[cfg(lookups)]
    {
        // SAFETY: the caller keeps the contract; the name is a C string.
        let found = unsafe { crate::dlsym::next()(handle, name.as_ptr()) };
        found.cast_const().cast()
    }
    #[cfg(not(lookups))]
    {
        let _ = (handle, name);
        std::ptr::null()
    }
}

/// Rebinds what was loaded since the last call, so that calls of `dlsym` and of functions of a table
/// come to us, and says what had led past us: since `since`, or never for [`usize::MAX`].
///
/// It costs little while nothing is loaded. A call that went past us before is not heard.
#[must_use]
pub fn bindings_past_us(since: usize) -> BindingsPastUs {
    #[cfg(lookups)]
    {
        let mut found = Reported::new();
        // SAFETY: `collect` is given the list that it takes.
        let now = unsafe { (serving().bindings)(since, collect, (&raw mut found).cast()) };
        let found = found.into_iter();
        let found = found.map(|(library, symbol, rebound)| BindingPastUs {
            library,
            symbol,
            rebound: rebound != 0,
        });
        BindingsPastUs {
            now,
            found: found.collect(),
        }
    }
    #[cfg(not(lookups))]
    {
        let _ = since;
        BindingsPastUs::default()
    }
}

/// Calls of watched functions that no wrapper stands for: of variants that no table has, or of a
/// second driver. Each check compares them with what they were when it began.
#[must_use]
pub fn unheard_calls() -> Vec<UnheardCalls> {
    #[cfg(lookups)]
    {
        let mut called = Reported::new();
        // SAFETY: `collect` is given the list that it takes.
        unsafe { (serving().unheard)(collect, (&raw mut called).cast()) };
        let called = called.into_iter();
        called
            .map(|(_, name, calls)| UnheardCalls { name, calls })
            .collect()
    }
    #[cfg(not(lookups))]
    Vec::new()
}

/// The files loaded into other namespaces, by `dlmopen` or for `LD_AUDIT`: they have a C library and
/// perhaps a driver of their own, of which nothing is heard. Empty before glibc 2.35, which does not
/// tell.
#[must_use]
pub fn libraries_elsewhere() -> Vec<String> {
    #[cfg(lookups)]
    return crate::objects::elsewhere();
    #[cfg(not(lookups))]
    Vec::new()
}
