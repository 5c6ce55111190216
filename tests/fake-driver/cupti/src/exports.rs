//! The functions of libcupti that a callback subscriber needs.

#![expect(unsafe_code, reason = "symbols of libcupti, with raw arguments")]

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::Ordering;

use crate::cuda::Cuda;
use crate::result::{self, INVALID_CONTEXT, INVALID_PARAMETER, SUCCESS};
use crate::subscriber::{self, Callback, Subscriber};

/// Writes an answer; a null pointer is `INVALID_PARAMETER`.
///
/// # Safety
///
/// `out` must be null or valid for writes.
unsafe fn put<T>(out: *mut T, value: T) -> u32 {
    if out.is_null() {
        return INVALID_PARAMETER;
    }
    // SAFETY: what this function's caller promises.
    unsafe { out.write(value) };
    SUCCESS
}

/// What a call is to fail with instead of doing anything.
fn planned(name: &CStr) -> Option<u32> {
    Cuda::get().and_then(|cuda| cuda.call(name))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiGetVersion(version: *mut u32) -> u32 {
    if let Some(code) = planned(c"cuptiGetVersion") {
        return code;
    }
    // SAFETY: as the header has it.
    unsafe { put(version, subscriber::version()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiGetResultString(code: u32, text: *mut *const c_char) -> u32 {
    if let Some(code) = planned(c"cuptiGetResultString") {
        return code;
    }
    match result::name(code) {
        // SAFETY: as the header has it.
        Some(name) => unsafe { put(text, name.as_ptr()) },
        None => INVALID_PARAMETER,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiSubscribe(
    handle: *mut usize,
    callback: Option<Callback>,
    userdata: *mut c_void,
) -> u32 {
    if let Some(code) = planned(c"cuptiSubscribe") {
        return code;
    }
    let Some(callback) = callback.filter(|_| !handle.is_null()) else {
        return INVALID_PARAMETER;
    };
    match subscriber::subscribe(Subscriber::new(callback, userdata, String::new(), false)) {
        // SAFETY: as the header has it.
        Ok(made) => unsafe { put(handle, made) },
        Err((code, _)) => code,
    }
}

/// `CUpti_SubscriberParams`; the last eight bytes from CUDA 13.2 on.
#[repr(C)]
#[derive(Debug)]
struct SubscriberParams {
    struct_size: usize,
    subscriber_name: *const c_char,
    old_subscriber_name: *mut c_char,
    old_subscriber_size: usize,
    allow_multiple_subscribers: u8,
    padding: [u8; 7],
}

const SIZE_BEFORE_13_2: usize = 32;
const SIZE: usize = 40;

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiSubscribe_v2(
    handle: *mut usize,
    callback: Option<Callback>,
    userdata: *mut c_void,
    params: *const SubscriberParams,
) -> u32 {
    if let Some(code) = planned(c"cuptiSubscribe_v2") {
        return code;
    }
    let Some(callback) = callback.filter(|_| !handle.is_null() && !params.is_null()) else {
        return INVALID_PARAMETER;
    };
    // SAFETY: not null; the first field says how many of the others are there.
    let size = unsafe { (*params).struct_size };
    let knows_sharing = subscriber::version() >= 130_200;
    if size != SIZE_BEFORE_13_2 && !(knows_sharing && size == SIZE) {
        return INVALID_PARAMETER;
    }
    // SAFETY: every size allowed above has these three.
    let (name, old_name, old_size) = unsafe {
        (
            (*params).subscriber_name,
            (*params).old_subscriber_name,
            (*params).old_subscriber_size,
        )
    };
    // SAFETY: read only where the size says it is there.
    let shares = size == SIZE && unsafe { (*params).allow_multiple_subscribers } != 0;
    let name = if name.is_null() {
        String::new()
    } else {
        // SAFETY: not null, so a C string.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    };
    match subscriber::subscribe(Subscriber::new(callback, userdata, name, shares)) {
        // SAFETY: as the header has it.
        Ok(made) => unsafe { put(handle, made) },
        Err((code, first)) => {
            if !old_name.is_null() && old_size > 0 {
                let length = first.len().min(old_size - 1);
                // SAFETY: the caller gave `old_size` bytes at `old_name`.
                unsafe {
                    std::ptr::copy_nonoverlapping(first.as_ptr(), old_name.cast(), length);
                    old_name.add(length).write(0);
                }
            }
            code
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuptiUnsubscribe(handle: usize) -> u32 {
    if let Some(code) = planned(c"cuptiUnsubscribe") {
        return code;
    }
    if subscriber::unsubscribe(handle) {
        SUCCESS
    } else {
        INVALID_PARAMETER
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuptiEnableCallback(enable: u32, handle: usize, domain: u32, cbid: u32) -> u32 {
    if let Some(code) = planned(c"cuptiEnableCallback") {
        return code;
    }
    let Some(subscriber) = subscriber::find(handle) else {
        return INVALID_PARAMETER;
    };
    let Some(switch) = subscriber.switch(domain, cbid) else {
        return INVALID_PARAMETER;
    };
    switch.store(enable != 0, Ordering::Relaxed);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuptiEnableDomain(enable: u32, handle: usize, domain: u32) -> u32 {
    let Some(subscriber) = subscriber::find(handle) else {
        return INVALID_PARAMETER;
    };
    let Some(switches) = subscriber.switches(domain) else {
        return INVALID_PARAMETER;
    };
    for switch in switches {
        switch.store(enable != 0, Ordering::Relaxed);
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiGetCallbackState(
    enabled: *mut u32,
    handle: usize,
    domain: u32,
    cbid: u32,
) -> u32 {
    if let Some(code) = planned(c"cuptiGetCallbackState") {
        return code;
    }
    let Some(subscriber) = subscriber::find(handle) else {
        return INVALID_PARAMETER;
    };
    let Some(switch) = subscriber.switch(domain, cbid) else {
        return INVALID_PARAMETER;
    };
    let is_heard = switch.load(Ordering::Relaxed) && !subscriber::is_lost();
    // SAFETY: as the header has it.
    unsafe { put(enabled, u32::from(is_heard)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiGetDeviceId(context: u64, device: *mut u32) -> u32 {
    if let Some(code) = planned(c"cuptiGetDeviceId") {
        return code;
    }
    match Cuda::get().and_then(|cuda| cuda.context_info(context)) {
        // SAFETY: as the header has it.
        Some((found, _)) => unsafe { put(device, found) },
        None => INVALID_CONTEXT,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuptiGetContextId(context: u64, id: *mut u32) -> u32 {
    match Cuda::get().and_then(|cuda| cuda.context_info(context)) {
        // SAFETY: as the header has it.
        Some((_, found)) => unsafe { put(id, found) },
        None => INVALID_CONTEXT,
    }
}
