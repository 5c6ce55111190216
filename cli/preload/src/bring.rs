//! The moment at which a program asks for a function of the driver: the harness is loaded.

#![expect(
    unsafe_code,
    reason = "the loader calls what stands in a section, and loads a library"
)]

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use gpu_leak_interpose::Registration;

use crate::functions::{DRIVER, NAMES};

static ASKED_FOR: Registration =
    Registration::new(NAMES, Some(is_asked_for)).with_trampolines(&DRIVER);

// SAFETY: the loader calls each entry of this section once, as a function without arguments; this one
// hands a table in.
#[used]
#[unsafe(link_section = ".init_array")]
static FIRST: extern "C" fn() = first;

extern "C" fn first() {
    // If it refuses, the functions lead to the driver itself, and nothing is watched.
    let _ = gpu_leak_interpose::register(&ASKED_FOR);
}

/// Loads the harness, whose constructor hands its own table in. It may come here again from inside, and
/// from several threads at once: who comes second waits for the loader, not for us, for whoever looks
/// something up may be at work for the loader already.
unsafe extern "C" fn is_asked_for(_: *const c_char, _: *const c_void) {
    static IS_HERE: AtomicBool = AtomicBool::new(false);

    if IS_HERE.load(Ordering::Acquire) {
        return;
    }
    // `$ORIGIN` is where the caller of `dlopen` lies: this library.
    let name = c"$ORIGIN/libgpu_leak_inject.so";
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE;
    // SAFETY: a C string; the constructors of that library are made to run at any time.
    let library = unsafe { libc::dlopen(name.as_ptr(), flags) };
    if library.is_null() {
        // The program goes on unwatched; the message is none of its own.
        // SAFETY: takes the message of this thread, and nothing keeps it.
        unsafe { libc::dlerror() };
    }
    IS_HERE.store(true, Ordering::Release);
}
