//! `vkGetInstanceProcAddr` and `vkGetDeviceProcAddr`, with which programs look up all other
//! functions of Vulkan.

#![expect(
    unsafe_code,
    reason = "defines C functions that receive names as pointers"
)]

use std::ffi::{CStr, c_char};
use std::mem;

use gpu_leak_interpose::{Slot, WatchedFunction, wrapper_by_address};
#[cfg(feature = "holders")]
use rustc_hash::{FxBuildHasher, FxHashSet};

use super::functions::TARGETS;
use super::owners::GetAddress;
use crate::api::wrapper::look_up;
#[cfg(feature = "holders")]
use crate::exit;
#[cfg(feature = "holders")]
use crate::sync::{Mutex, locked};

/// The results of look-ups. Programs store these addresses in their own memory.
#[cfg(feature = "holders")]
static FOUND: Mutex<FxHashSet<u64>> = Mutex::new(FxHashSet::with_hasher(FxBuildHasher));

/// Returns the addresses of the drivers' functions that look-ups have found.
#[cfg(feature = "holders")]
pub(crate) fn found() -> FxHashSet<u64> {
    locked(&FOUND).clone()
}

/// The slots of the two functions. Each target has its own.
static OF_INSTANCE: [Slot; TARGETS] = [const { Slot::empty() }; TARGETS];
static OF_DEVICE: [Slot; TARGETS] = [const { Slot::empty() }; TARGETS];

static BY_TARGET: [[WatchedFunction; TARGETS]; 2] = [
    look_up!(c"vkGetInstanceProcAddr", of_instance, OF_INSTANCE, [0 1 2 3]),
    look_up!(c"vkGetDeviceProcAddr", of_device, OF_DEVICE, [0 1 2 3]),
];

/// The rows for these two functions.
pub(in crate::api) static LOOK_UPS: &[WatchedFunction] = BY_TARGET.as_flattened();

unsafe extern "C" fn of_instance<const TARGET: usize>(
    instance: u64,
    name: *const c_char,
) -> *const () {
    // SAFETY: the parameters are those of the caller's own call to the function in this slot.
    unsafe { forward(&OF_INSTANCE[TARGET], instance, name) }
}

unsafe extern "C" fn of_device<const TARGET: usize>(device: u64, name: *const c_char) -> *const () {
    // SAFETY: the parameters are those of the caller's own call to the function in this slot.
    unsafe { forward(&OF_DEVICE[TARGET], device, name) }
}

/// Forwards a look-up. Returns the wrapper that forwards to exactly the function that was found, or
/// that function itself if there is no such wrapper.
///
/// # Safety
///
/// The parameters are those of a call to the function in the slot.
unsafe fn forward(slot: &Slot, handle: u64, name: *const c_char) -> *const () {
    // SAFETY: the slot holds one of the two functions, and the caller's own call is forwarded
    // unchanged. The call returns a function with that name.
    unsafe {
        let real = mem::transmute::<*const (), GetAddress>(slot.real());
        let found = real(handle, name);
        if found.is_null() || name.is_null() {
            return found;
        }
        #[cfg(feature = "holders")]
        if !exit::forked() {
            locked(&FOUND).insert(found as u64);
        }
        let name = CStr::from_ptr(name);
        wrapper_by_address(name, found, Some(name))
    }
}
