//! Loads the harness when a program looks up a function of the driver.

#![expect(
    unsafe_code,
    reason = "places a function in a section from which the loader calls it, and calls the loader"
)]

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use gpu_leak_interpose::{Registration, symbol_of};

use crate::functions::{CUDA, CUDA_NAMES, VULKAN, VULKAN_NAMES};

static OF_CUDA: Registration =
    Registration::new(CUDA_NAMES, Some(looked_up)).with_trampolines(&CUDA);
static OF_VULKAN: Registration = Registration::new(VULKAN_NAMES, Some(looked_up))
    .with_trampolines(&VULKAN)
    .only_for_others();

// SAFETY: the section holds pointers to functions of this type, and the loader calls each of them
// once. Arguments that it passes are ignored.
#[used]
#[unsafe(link_section = ".init_array")]
static FIRST: extern "C" fn() = first;

extern "C" fn first() {
    // If a table is rejected, its functions call the driver directly, and nothing is watched.
    let _ = gpu_leak_interpose::register(&OF_CUDA);
    let _ = gpu_leak_interpose::register(&OF_VULKAN);
}

/// Loads the harness, whose constructor registers its own table. This can be called recursively and
/// by several threads at once. A second thread waits for the loader's lock and not for one of ours,
/// because a thread that looks something up may already hold the loader's lock.
unsafe extern "C" fn looked_up(_: *const c_char, _: *const c_void) {
    static IS_DONE: AtomicBool = AtomicBool::new(false);

    if IS_DONE.load(Ordering::Acquire) {
        return;
    }
    if open_harness().is_null() {
        report_failure();
    }
    IS_DONE.store(true, Ordering::Release);
}

/// Prints why the harness cannot be loaded, for example because the process may no longer open the
/// file. The program continues unwatched, and must not see the loader's message.
fn report_failure() {
    // SAFETY: this takes the message of this thread. The message is valid until the thread's next
    // call to the loader, and nothing keeps a pointer to it.
    let why = unsafe { libc::dlerror() };
    if why.is_null() {
        return;
    }
    // SAFETY: the loader's message is a C string.
    let why = unsafe { CStr::from_ptr(why) }.to_bytes();
    let line: [&[u8]; 3] = [b"gpu-leak-check: this process is not watched: ", why, b"\n"];
    let parts = line.map(|part| libc::iovec {
        iov_base: part.as_ptr().cast_mut().cast(),
        iov_len: part.len(),
    });
    // SAFETY: the parts are valid, and the call only reads them. An error means that nothing reads
    // standard error any more.
    unsafe { libc::writev(libc::STDERR_FILENO, parts.as_ptr(), 3) };
}

/// Opens the library with the harness, which is next to this one, by its full path. `$ORIGIN` would
/// be the directory of the library that calls `dlopen`, which is the wrong one if a tool such as
/// compute-sanitizer has placed its own `dlopen` before the C library's.
fn open_harness() -> *mut c_void {
    const NAME: &[u8] = b"libgpu_leak_inject.so\0";

    let us = symbol_of((&raw const OF_CUDA).addr()).filter(|us| !us.dli_fname.is_null());
    let Some(us) = us else {
        return ptr::null_mut();
    };
    // SAFETY: the loader keeps the name as long as it keeps this library.
    let path = unsafe { CStr::from_ptr(us.dli_fname) }.to_bytes();
    let slash = path.iter().rposition(|byte| *byte == b'/');
    let directory = &path[..slash.map_or(0, |at| at + 1)];
    // The path is built on the stack, because the caller of a look-up may be an allocator.
    let mut path = [0_u8; libc::PATH_MAX as usize];
    let Some(used) = path.get_mut(..directory.len() + NAME.len()) else {
        return ptr::null_mut();
    };
    used[..directory.len()].copy_from_slice(directory);
    used[directory.len()..].copy_from_slice(NAME);
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE;
    // SAFETY: the path is a C string, and the constructors of that library may run at any time.
    unsafe { libc::dlopen(path.as_ptr().cast(), flags) }
}
