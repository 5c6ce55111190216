//! The functions that the table names: for each row, one creates a resource and one releases it.
//!
//! The line that a report must name ends with `// leak: ROW`, by which the tests find its number.
//!
//! `sys` has the functions of the toolkit that is installed where the tests are built. A function
//! that older toolkits lack must be looked up by name, with [`driver_function`]. A row that a GPU
//! or its driver may refuse gets `unless(…)` in the table, with a function that returns the reason,
//! for example by calling [`refusal`].

#![expect(
    unsafe_code,
    reason = "calls the driver, so that each leak is one call"
)]

pub(crate) mod arrays;
pub(crate) mod code;
pub(crate) mod contexts;
pub(crate) mod graphs;
pub(crate) mod imported;
pub(crate) mod memory;
pub(crate) mod streams;
pub(crate) mod virtual_memory;

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, OnceLock};

use cudarc::driver::{CudaContext, sys};

pub(crate) type Pointer = sys::CUdeviceptr;

/// The primary context of device 0, created once, kept, and current on this thread.
pub(crate) fn context() -> &'static Arc<CudaContext> {
    static CONTEXT: OnceLock<Arc<CudaContext>> = OnceLock::new();
    let context = CONTEXT.get_or_init(|| CudaContext::new(0).expect("device 0 has a context"));
    context.bind_to_thread().expect("a live context");
    context
}

/// Forgets the resource, so that it leaks.
pub(crate) fn keep<T>(taken: T) {
    std::mem::forget(taken);
}

/// Returns what a call writes to its out parameter.
///
/// # Safety
///
/// The call must be sound with an out parameter that is valid for writes, and write to it if it
/// succeeds.
unsafe fn made<T>(call: impl FnOnce(*mut T) -> sys::CUresult) -> T {
    let mut out = MaybeUninit::uninit();
    call(out.as_mut_ptr())
        .result()
        .expect("a call that succeeds");
    // SAFETY: the call succeeded, and the caller guarantees that it has then written a value.
    unsafe { out.assume_init() }
}

/// Fails unless the call succeeded.
fn done(result: sys::CUresult) {
    result.result().expect("a call that succeeds");
}

/// Returns a structure of the driver with all bytes 0.
///
/// # Safety
///
/// All zeros must be a valid value of each field.
unsafe fn zeroed<T>() -> T {
    // SAFETY: the caller upholds the contract.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Returns a function of the driver that cudarc does not declare.
fn driver_function<F: Copy>(name: &str) -> F {
    static DRIVER: OnceLock<libloading::Library> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| {
        // SAFETY: the driver is loaded, because a context is current.
        unsafe { libloading::Library::new("libcuda.so.1") }.expect("the driver")
    });
    // SAFETY: callers pass the types that these functions have in `cuda.h`.
    *unsafe { driver.get::<F>(name.as_bytes()) }.expect("a function of the driver")
}

/// Makes an attempt. If it fails on this machine, returns the reason.
fn refusal(what: &str, attempt: impl FnOnce()) -> Option<String> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let outcome = panic::catch_unwind(AssertUnwindSafe(attempt));
    panic::set_hook(hook);
    let payload = outcome.err()?;
    let words = payload
        .downcast_ref::<String>()
        .map_or("it fails", String::as_str);
    Some(format!("{what}: {words}"))
}

fn attribute(attribute: sys::CUdevice_attribute) -> c_int {
    // SAFETY: the call writes an integer to a local variable.
    unsafe { made(|out| sys::cuDeviceGetAttribute(out, attribute, 0)) }
}

/// Returns the location of the line with this mark: its file as in reports, and its number, counted
/// from 1.
pub(super) fn line_of(mark: &str) -> (String, u32) {
    let ending = format!("// leak: {mark}");
    for (file, text) in SOURCES {
        if let Some(line) = text.lines().position(|line| line.ends_with(&ending)) {
            let line = u32::try_from(line + 1).expect("a short file");
            return (format!("tests/kinds/planted/{file}"), line);
        }
    }
    panic!("no line of a file in `SOURCES` ends in `{ending}`");
}

macro_rules! sources {
    ($($file:literal)*) => { &[$(($file, include_str!($file))),*] };
}

static SOURCES: &[(&str, &str)] = sources! {
    "arrays.rs" "code.rs" "contexts.rs" "graphs.rs" "imported.rs" "memory.rs" "streams.rs" "virtual_memory.rs"
};
