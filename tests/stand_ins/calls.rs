//! Calls to the driver's C interface.

#![expect(unsafe_code, reason = "calls the driver's C interface")]

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use cudarc::driver::{result, sys};
use sys::CUresult;

pub(crate) const MIB: u64 = 1 << 20;

/// Returns what a call writes to its out parameter. Fails unless the call succeeds.
pub(crate) fn answer<T>(call: impl FnOnce(*mut T) -> CUresult) -> T {
    let mut value = MaybeUninit::uninit();
    ok(call(value.as_mut_ptr()));
    // SAFETY: the call succeeded, so it has written its result.
    unsafe { value.assume_init() }
}

/// Returns the error of a call that must fail.
pub(crate) fn refusal<T>(call: impl FnOnce(*mut T) -> CUresult) -> CUresult {
    let mut value = MaybeUninit::uninit();
    call(value.as_mut_ptr())
}

/// Fails unless the call succeeds.
#[track_caller]
pub(crate) fn ok(code: CUresult) {
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

/// Looks up a function as a program that was built for this CUDA version does. `sys` has only the
/// functions of the toolkit that is installed where the tests are built.
pub(crate) fn look_up(name: &CStr, version: i32) -> *mut c_void {
    let (name, flags, status) = (name.as_ptr(), 0, ptr::null_mut());
    // SAFETY: the out pointer is valid, and the name is a C string.
    answer(|out| unsafe { sys::cuGetProcAddress_v2(name, out, version, flags, status) })
}

/// Makes the primary context of the first device current on this thread, and returns it.
pub(crate) fn context() -> sys::CUcontext {
    context_of(0)
}

/// Like [`context`], but for the device with the given ordinal.
pub(crate) fn context_of(device: i32) -> sys::CUcontext {
    result::init().expect("a driver");
    // SAFETY: the out pointer is valid, and the device exists.
    let context = answer(|out| unsafe { sys::cuDevicePrimaryCtxRetain(out, device) });
    // SAFETY: the context is live.
    ok(unsafe { sys::cuCtxSetCurrent(context) });
    context
}

/// Returns the free bytes of the current context's device.
pub(crate) fn free_bytes() -> u64 {
    result::mem_get_info().expect("figures").0 as u64
}
