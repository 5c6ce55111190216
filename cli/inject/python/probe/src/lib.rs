//! A library that the tests of `gpu-leak-python` load into an interpreter. Its functions return the
//! backtrace of the calling thread.

#![expect(
    unsafe_code,
    reason = "defines C functions that Python calls through ctypes"
)]

use std::ffi::{c_char, c_void};
use std::fmt::Write;
use std::hint::black_box;
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::time::Instant;

use gpu_leak_check::__bench;
use gpu_leak_check::ledger::{self, Kind};
use gpu_leak_check::report;

/// Installs the reader, writes the result as text, and returns the length of the text.
///
/// # Safety
///
/// `to` must have room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probe_install(to: *mut c_char, room: usize) -> usize {
    let text = match gpu_leak_python::install() {
        Ok(Some(version)) => format!("reads {version}"),
        Ok(None) => "no Python".to_owned(),
        Err(unsupported) => unsupported.to_string(),
    };
    // SAFETY: the caller upholds the contract.
    unsafe { copy_to(&text, to, room) }
}

/// Writes the frames of the calling thread as reports show them, one per line: file, line, column,
/// function, owner, module and language, separated by tabs. Unknown fields are empty.
///
/// # Safety
///
/// `to` must have room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probe_stack(to: *mut c_char, room: usize) -> usize {
    let stack = __bench::stack();
    let site = report::site(ledger::live().stacks().frames(stack), Kind::Linear, &[]);
    let mut lines = String::new();
    for frame in &site.frames {
        let number = |number: Option<u32>| number.map_or_else(String::new, |it| it.to_string());
        let text = |text: &Option<Arc<str>>| text.as_deref().unwrap_or_default().to_owned();
        let _ = writeln!(
            lines,
            "{}\t{}\t{}\t{}\t{:?}\t{}\t{:?}",
            text(&frame.file),
            number(frame.line),
            number(frame.column),
            text(&frame.function),
            frame.owner,
            text(&frame.module),
            frame.language,
        );
    }
    // SAFETY: the caller upholds the contract.
    unsafe { copy_to(&lines, to, room) }
}

/// Calls [`probe_stack`] as the body of a thread. `to` is a buffer of 64 KiB of zeros.
///
/// # Safety
///
/// `to` must have room for 64 KiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probe_thread(to: *mut c_void) -> *mut c_void {
    // SAFETY: the caller upholds the contract.
    unsafe { probe_stack(to.cast(), 1 << 16) };
    ptr::null_mut()
}

/// Returns the mean time of `times` backtraces, in nanoseconds.
#[unsafe(no_mangle)]
pub extern "C" fn probe_cost(times: u32) -> u64 {
    let start = Instant::now();
    for _ in 0..times {
        black_box(__bench::stack());
    }
    start.elapsed().as_nanos() as u64 / u64::from(times.max(1))
}

/// # Safety
///
/// `to` must have room for `room` bytes.
unsafe fn copy_to(text: &str, to: *mut c_char, room: usize) -> usize {
    // SAFETY: the caller upholds the contract.
    let to = unsafe { slice::from_raw_parts_mut(to.cast::<u8>(), room) };
    let length = text.len().min(room);
    to[..length].copy_from_slice(&text.as_bytes()[..length]);
    text.len()
}
