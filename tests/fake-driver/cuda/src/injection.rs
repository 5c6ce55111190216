//! A tool's library, loaded by `cuInit` as the real driver loads it: the file that
//! `CUDA_INJECTION64_PATH` names, and in it `InitializeInjection`. One that is not there is passed
//! over without a word.

#![expect(unsafe_code, reason = "a shared library chosen by the environment")]

use std::env;
use std::ffi::{CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fault;

/// Loads it, the first time. Not behind a lock: it may call `cuInit` itself.
pub(crate) fn load() {
    static LOADED: AtomicBool = AtomicBool::new(false);
    if fault::device_count() == 0 || LOADED.swap(true, Ordering::Relaxed) {
        return;
    }
    let path = env::var_os("CUDA_INJECTION64_PATH").unwrap_or_default();
    let Ok(path) = CString::new(path.as_bytes()) else {
        return;
    };
    if path.is_empty() {
        return;
    }
    // SAFETY: `path` ends with a zero byte; who sets the variable wants the library's initialisers
    // to run here.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        return;
    }
    // SAFETY: the handle is open and never closed.
    let entry = unsafe { libc::dlsym(library, c"InitializeInjection".as_ptr()) };
    if entry.is_null() {
        return;
    }
    // SAFETY: a library for this variable gives that name this signature.
    unsafe {
        let entry = std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(entry);
        entry();
    }
}
