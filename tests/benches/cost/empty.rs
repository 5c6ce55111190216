//! The minimal cost of a tool based on CUPTI. It subscribes to the measured calls, and its callback
//! returns immediately. The harness itself does not need CUPTI.

#![expect(unsafe_code, reason = "CUPTI's interface is C")]

use std::env;
use std::ffi::c_void;
use std::ptr;

use libloading::Library;

type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);
type Subscribe = unsafe extern "C" fn(*mut *mut c_void, Callback, *mut c_void) -> u32;
type Enable = unsafe extern "C" fn(u32, *mut c_void, u32, u32) -> u32;

/// `CUPTI_CB_DOMAIN_DRIVER_API`
const DRIVER_API: u32 = 1;
/// The callback IDs in `cupti_driver_cbid.h` of `cuMemAlloc_v2`, `cuMemFree_v2`, both variants of
/// `cuMemAllocAsync` and `cuMemFreeAsync`, `cuEventCreate` and `cuEventDestroy_v2`.
const MEASURED: [u32; 8] = [243, 245, 598, 599, 600, 601, 118, 325];

/// The paths at which CUPTI may be: the value of the variable `CUPTI`, and then the file names for
/// which the loader searches.
fn candidates() -> impl Iterator<Item = String> {
    let names = ["libcupti.so.13", "libcupti.so.12", "libcupti.so"];
    env::var("CUPTI")
        .into_iter()
        .chain(names.map(str::to_owned))
}

unsafe extern "C" fn callback(_user: *mut c_void, _domain: u32, _id: u32, _data: *const c_void) {}

/// Subscribes until the process ends.
pub(crate) fn subscribe() -> Result<(), String> {
    let mut refusal = "no CUPTI was found".to_owned();
    for candidate in candidates() {
        match subscribe_through(&candidate) {
            Ok(()) => return Ok(()),
            Err(why) => refusal = format!("{candidate}: {why}"),
        }
    }
    Err(refusal)
}

fn subscribe_through(path: &str) -> Result<(), String> {
    // SAFETY: CUPTI's constructors may run at any time.
    let library = unsafe { Library::new(path) }.map_err(|error| error.to_string())?;
    // CUPTI calls the callback until the process ends.
    let library: &'static Library = Box::leak(Box::new(library));
    let missing = |error: libloading::Error| error.to_string();
    // SAFETY: `cupti_callbacks.h` declares these signatures.
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
    // SAFETY: the call writes a handle to a local variable. The callback stays valid and needs no
    // user data.
    let code = unsafe { subscribe(&raw mut subscriber, callback, ptr::null_mut()) };
    if code != 0 {
        return Err(format!("cuptiSubscribe returned {code}"));
    }
    for id in MEASURED {
        // SAFETY: the handle is that of the new subscription, and CUPTI checks the IDs.
        let code = unsafe { enable(1, subscriber, DRIVER_API, id) };
        if code != 0 {
            return Err(format!("cuptiEnableCallback returned {code} for {id}"));
        }
    }
    Ok(())
}
