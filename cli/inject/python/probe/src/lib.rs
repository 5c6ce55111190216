//! What the tests of `gpu-leak-python` have an interpreter load: functions that tell where the
//! calling thread stands.

#![expect(unsafe_code, reason = "ctypes calls C")]

use std::ffi::{c_char, c_void};
use std::fmt::Write;
use std::hint::black_box;
use std::ptr;
use std::slice;
use std::time::Instant;

use gpu_leak_check::__bench;
use gpu_leak_check::ledger::{self, Kind};
use gpu_leak_check::report;

/// Writes what installing the reader came to, and answers with the text's length.
///
/// # Safety
///
/// `to` has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probe_install(to: *mut c_char, room: usize) -> usize {
    let told = match gpu_leak_python::install() {
        Ok(Some(version)) => format!("reads {version}"),
        Ok(None) => "no Python".to_owned(),
        Err(unsupported) => unsupported.to_string(),
    };
    // SAFETY: the caller's promise.
    unsafe { tell(&told, to, room) }
}

/// Writes the frames of the calling thread's stack as reports have them, a line each: file, line,
/// column, function, whose code it is, module, with tabs between; empty where unknown.
///
/// # Safety
///
/// `to` has room for `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probe_stack(to: *mut c_char, room: usize) -> usize {
    let stack = __bench::stack();
    let site = report::site(ledger::live().stacks().frames(stack), Kind::Linear, &[]);
    let mut told = String::new();
    for frame in &site.frames {
        let number = |number: Option<u32>| number.map_or_else(String::new, |it| it.to_string());
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let _ = writeln!(
            told,
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
    // SAFETY: the caller's promise.
    unsafe { tell(&told, to, room) }
}

/// [`probe_stack`] as the body of a thread: `to` has room for 64 KiB, all zero.
///
/// # Safety
///
/// As `to` has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probe_thread(to: *mut c_void) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { probe_stack(to.cast(), 1 << 16) };
    ptr::null_mut()
}

/// How many nanoseconds a stack takes, over `times` of them.
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
/// `to` has room for `room` bytes.
unsafe fn tell(text: &str, to: *mut c_char, room: usize) -> usize {
    // SAFETY: the caller's promise.
    let to = unsafe { slice::from_raw_parts_mut(to.cast::<u8>(), room) };
    let length = text.len().min(room);
    to[..length].copy_from_slice(&text.as_bytes()[..length]);
    text.len()
}
