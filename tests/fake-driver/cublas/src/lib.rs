//! A stand-in for libcublas. Its handles allocate as much memory as real ones, and do nothing else.
//!
//! It exists so that stacks contain a library between the program and the driver.

#![expect(unsafe_code, reason = "exports a C library's symbols")]

use std::ffi::{CStr, c_int, c_void};
use std::sync::Once;

/// `CUBLAS_STATUS_ALLOC_FAILED`.
const ALLOC_FAILED: c_int = 3;
/// The number of bytes that the creation of a handle allocates on an H200.
const WORKSPACE: usize = 64 << 20;

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

/// Loads the library's code once, like the real library, which loads the kernels that it needs.
fn load_code() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut module = 0;
        // SAFETY: this is the documented signature.
        let load: Option<unsafe extern "C" fn(*mut u64, *const u8) -> u32> =
            unsafe { driver(c"cuModuleLoadData") };
        if let Some(load) = load {
            // SAFETY: the handle is written to a local variable, and the image ends with a zero
            // byte.
            unsafe { load(&raw mut module, c"kernels".as_ptr().cast()) };
        }
    });
}

/// Allocates a workspace, whose address is the handle.
///
/// # Safety
///
/// `handle` must be valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cublasCreate_v2(handle: *mut u64) -> c_int {
    load_code();
    // SAFETY: this is the documented signature.
    let allocate: Option<unsafe extern "C" fn(*mut u64, usize) -> u32> =
        unsafe { driver(c"cuMemAlloc_v2") };
    // SAFETY: the caller upholds the contract.
    let answer = allocate.map(|allocate| unsafe { allocate(handle, WORKSPACE) });
    if answer == Some(0) { 0 } else { ALLOC_FAILED }
}

/// Frees the workspace.
#[unsafe(no_mangle)]
pub extern "C" fn cublasDestroy_v2(handle: u64) -> c_int {
    // SAFETY: this is the documented signature.
    let free: Option<unsafe extern "C" fn(u64) -> u32> = unsafe { driver(c"cuMemFree_v2") };
    // SAFETY: the driver checks the address.
    let answer = free.map(|free| unsafe { free(handle) });
    if answer == Some(0) { 0 } else { ALLOC_FAILED }
}
