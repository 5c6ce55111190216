//! Loads the harness when a program looks up a function of the driver.

#![expect(
    unsafe_code,
    reason = "places a function in a section from which the loader calls it, and calls the loader"
)]

use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use gpu_leak_interpose::Registration;

use crate::functions::{CUDA, CUDA_NAMES, VULKAN, VULKAN_NAMES};

static OF_CUDA: Registration =
    Registration::new(CUDA_NAMES, Some(is_asked_for)).with_trampolines(&CUDA);
static OF_VULKAN: Registration = Registration::new(VULKAN_NAMES, Some(is_asked_for))
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
unsafe extern "C" fn is_asked_for(_: *const c_char, _: *const c_void) {
    static IS_HERE: AtomicBool = AtomicBool::new(false);

    if IS_HERE.load(Ordering::Acquire) {
        return;
    }
    let library = load_from_beside_us();
    if library.is_null() {
        // The program continues unwatched, and must not see the loader's message. SAFETY: this
        // takes the message of this thread, and nothing keeps a pointer to it.
        unsafe { libc::dlerror() };
    }
    IS_HERE.store(true, Ordering::Release);
}

/// Opens the harness by its full path. `$ORIGIN` would be the directory of the library that calls
/// `dlopen`, which is the wrong one if a tool such as compute-sanitizer has placed its own `dlopen`
/// before the C library's.
fn load_from_beside_us() -> *mut c_void {
    const NAME: &[u8] = b"libgpu_leak_inject.so\0";

    // SAFETY: zero is a valid value of every field.
    let mut us: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the arguments are an address in this library and a writable structure.
    let is_found = unsafe { libc::dladdr((&raw const OF_CUDA).cast(), &raw mut us) } != 0;
    if !is_found || us.dli_fname.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the loader keeps the name as long as it keeps this library.
    let path = unsafe { CStr::from_ptr(us.dli_fname) }.to_bytes();
    let directory = path
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |at| at + 1);
    // The name is built on the stack, because the caller of a look-up may be an allocator.
    let mut name = [0_u8; libc::PATH_MAX as usize];
    let Some(place) = name.get_mut(..directory + NAME.len()) else {
        return ptr::null_mut();
    };
    place[..directory].copy_from_slice(&path[..directory]);
    place[directory..].copy_from_slice(NAME);
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE;
    // SAFETY: the name is a C string, and the constructors of that library may run at any time.
    unsafe { libc::dlopen(name.as_ptr().cast(), flags) }
}
