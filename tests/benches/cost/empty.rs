//! The least that any tracer can cost: a subscriber to the calls that the harness watches, whose
//! callback returns at once.

#![expect(unsafe_code, reason = "CUPTI's interface is C")]

use std::ffi::c_void;
use std::path::Path;
use std::ptr;

use gpu_leak_check::__bench;
use libloading::Library;

type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);
type Subscribe = unsafe extern "C" fn(*mut *mut c_void, Callback, *mut c_void) -> u32;
type Enable = unsafe extern "C" fn(u32, *mut c_void, u32, u32) -> u32;

/// CUPTI does not know the id: it is older than the call.
const INVALID_PARAMETER: u32 = 1;

unsafe extern "C" fn callback(_user: *mut c_void, _domain: u32, _id: u32, _data: *const c_void) {}

/// Subscribes for the life of the process.
pub(crate) fn subscribe() -> Result<(), String> {
    let mut refusal = "no CUPTI was found".to_owned();
    for candidate in __bench::cupti_candidates()? {
        match subscribe_through(&candidate) {
            Ok(()) => return Ok(()),
            Err(why) => refusal = format!("{}: {why}", candidate.display()),
        }
    }
    Err(refusal)
}

fn subscribe_through(path: &Path) -> Result<(), String> {
    // SAFETY: CUPTI's initialisers may run at any time.
    let library = unsafe { Library::new(path) }.map_err(|error| error.to_string())?;
    // It calls back until the process ends.
    let library: &'static Library = Box::leak(Box::new(library));
    let missing = |error: libloading::Error| error.to_string();
    // SAFETY: the signatures are those of `cupti_callbacks.h`.
    let (subscribe, enable) = unsafe {
        (
            library
                .get::<Subscribe>(b"cuptiSubscribe")
                .map_err(missing)?,
            library
                .get::<Enable>(b"cuptiEnableCallback")
                .map_err(missing)?,
        )
    };
    let mut subscriber = ptr::null_mut();
    // SAFETY: writes a handle to a place of ours; the callback stays and needs no user data.
    let code = unsafe { subscribe(&raw mut subscriber, callback, ptr::null_mut()) };
    if code != 0 {
        return Err(format!("cuptiSubscribe gives {code}"));
    }
    for (domain, id) in __bench::watched() {
        // SAFETY: the handle of the subscription just made; CUPTI checks the numbers.
        let code = unsafe { enable(1, subscriber, domain, id) };
        if code != 0 && code != INVALID_PARAMETER {
            return Err(format!(
                "cuptiEnableCallback gives {code} for {domain}, {id}"
            ));
        }
    }
    Ok(())
}
