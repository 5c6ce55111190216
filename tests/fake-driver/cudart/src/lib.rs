//! A stand-in for libcudart, the CUDA runtime. It loads code by itself when a kernel is first
//! launched, and also when the program requests it.
//!
//! Under another file name, it stands for a library of the program, which may load code at any
//! time.

#![expect(unsafe_code, reason = "exports a C library's symbols")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::Once;

/// `cudaErrorUnknown`.
const UNKNOWN: c_int = 999;

type Load = unsafe extern "C" fn(
    *mut u64,
    *const c_void,
    *mut u32,
    *mut *mut c_void,
    u32,
    *mut u32,
    *mut *mut c_void,
    u32,
) -> u32;

/// Returns a driver function of this process as a function pointer of type `F`.
///
/// # Safety
///
/// `F` must be the type of the function called `name`.
unsafe fn driver<F: Copy>(name: &CStr) -> Option<F> {
    // SAFETY: both names end with a zero byte; the stand-in for the driver may be opened at any
    // time, and is never closed.
    let address = unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        libc::dlsym(library, name.as_ptr())
    };
    // SAFETY: the caller guarantees the type, which is that of a function pointer.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
}

/// Makes the driver load `code`. All other functions of this library that load code call this one.
///
/// # Safety
///
/// `library` must be valid for writes, and `code` an image.
#[inline(never)]
unsafe fn load(library: *mut u64, code: *const c_void) -> c_int {
    // SAFETY: this is the documented signature.
    let load: Option<Load> = unsafe { driver(c"cuLibraryLoadData") };
    let none = ptr::null_mut();
    // SAFETY: the caller upholds the contract, and there are no options.
    let answer = load.map(|load| unsafe {
        load(
            library,
            code,
            none,
            ptr::null_mut(),
            0,
            none,
            ptr::null_mut(),
            0,
        )
    });
    if answer == Some(0) { 0 } else { UNKNOWN }
}

/// Loads the code that a program registered, and keeps it.
fn load_registered() -> c_int {
    let mut library = 0;
    // SAFETY: the handle is written to a local variable, and the image ends with a zero byte.
    unsafe { load(&raw mut library, c"kernels".as_ptr().cast()) }
}

/// Launches nothing. The first call loads the program's code, which stays loaded.
#[unsafe(no_mangle)]
pub extern "C" fn cudaLaunchKernel() -> c_int {
    static ONCE: Once = Once::new();
    let mut answer = 0;
    ONCE.call_once(|| answer = load_registered());
    answer
}

/// Loads the code that the program passes.
///
/// # Safety
///
/// `library` must be valid for writes, and `code` an image.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaLibraryLoadData(
    library: *mut u64,
    code: *const c_void,
    _jit_options: *mut c_int,
    _jit_values: *mut *mut c_void,
    _jit_count: u32,
    _options: *mut c_int,
    _values: *mut *mut c_void,
    _count: u32,
) -> c_int {
    // SAFETY: the caller upholds the contract.
    unsafe { load(library, code) }
}

/// Unloads code that [`cudaLibraryLoadData`] loaded.
#[unsafe(no_mangle)]
pub extern "C" fn cudaLibraryUnload(library: u64) -> c_int {
    // SAFETY: this is the documented signature.
    let unload: Option<unsafe extern "C" fn(u64) -> u32> = unsafe { driver(c"cuLibraryUnload") };
    // SAFETY: the driver checks the handle.
    let answer = unload.map(|unload| unsafe { unload(library) });
    if answer == Some(0) { 0 } else { UNKNOWN }
}

/// Loads code and keeps it, like a library of the program that does not use the runtime.
///
/// # Safety
///
/// `code` must be an image.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fake_plugin_loads_code(code: *const c_char) -> c_int {
    let mut library = 0;
    // SAFETY: the handle is written to a local variable; the caller guarantees the rest.
    unsafe { load(&raw mut library, code.cast()) }
}
