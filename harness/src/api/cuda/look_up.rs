//! `cuGetProcAddress`, the driver's own function for looking up its functions, which almost all
//! programs use.

#![expect(
    unsafe_code,
    reason = "calls C functions that return results through pointers"
)]

use std::ffi::{CStr, c_char};
use std::mem;

use gpu_leak_interpose::{Slot, WatchedFunction, wrapper_by_address};

use super::functions::{DRIVERS, KNOWN_UP_TO, VARIANTS, Variant, is_per_thread};
use crate::api::wrapper::look_up;
use crate::ledger::event::CuResult;

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`
const PER_THREAD: u64 = 2;

/// The slots of both versions of the function. Each driver has its own.
static FIRST: [Slot; DRIVERS] = [const { Slot::empty() }; DRIVERS];
static SECOND: [Slot; DRIVERS] = [const { Slot::empty() }; DRIVERS];

static BY_DRIVER: [[WatchedFunction; DRIVERS]; 2] = [
    look_up!(c"cuGetProcAddress", first, FIRST, [0 1]),
    look_up!(c"cuGetProcAddress_v2", second, SECOND, [0 1]),
];

/// The rows for these functions. They are not in the table of functions, because looking up a name
/// needs that table.
pub(in crate::api) static LOOK_UPS: &[WatchedFunction] = BY_DRIVER.as_flattened();

type First = unsafe extern "C" fn(*const c_char, *mut *const (), i32, u64) -> CuResult;
type Second = unsafe extern "C" fn(*const c_char, *mut *const (), i32, u64, *mut u32) -> CuResult;

unsafe extern "C" fn first<const DRIVER: usize>(
    name: *const c_char,
    answer: *mut *const (),
    version: i32,
    flags: u64,
) -> CuResult {
    // SAFETY: the slot holds the driver's `cuGetProcAddress`, which has this signature, and the
    // caller's arguments are passed on unchanged.
    unsafe {
        let real = mem::transmute::<*const (), First>(FIRST[DRIVER].real());
        let error = real(name, answer, version, flags);
        wrap(name, answer, version, flags, error)
    }
}

unsafe extern "C" fn second<const DRIVER: usize>(
    name: *const c_char,
    answer: *mut *const (),
    version: i32,
    flags: u64,
    status: *mut u32,
) -> CuResult {
    // SAFETY: the slot holds the driver's `cuGetProcAddress_v2`, which has this signature, and the
    // caller's arguments are passed on unchanged.
    unsafe {
        let real = mem::transmute::<*const (), Second>(SECOND[DRIVER].real());
        let error = real(name, answer, version, flags, status);
        wrap(name, answer, version, flags, error)
    }
}

/// If the driver's answer is a function of the table, replaces the answer with our wrapper. Returns
/// `error`.
///
/// # Safety
///
/// The parameters are those of a call that has returned `error`.
unsafe fn wrap(
    name: *const c_char,
    answer: *mut *const (),
    version: i32,
    flags: u64,
    error: CuResult,
) -> CuResult {
    if error == 0 && !name.is_null() && !answer.is_null() {
        // SAFETY: the call has read the name, and has written the address of the function with that
        // name.
        unsafe {
            let (name, real) = (CStr::from_ptr(name), answer.read());
            if !real.is_null() {
                let meant = meant(name, version, flags);
                answer.write(wrapper_by_address(name, real, meant));
            }
        }
    }
    error
}

/// Returns the variant that `name` means in a program built for `version`, as in `cudaTypedefs.h`;
/// `None` for a name or version that the table does not know.
fn meant(name: &CStr, version: i32, flags: u64) -> Option<&'static CStr> {
    if version > KNOWN_UP_TO {
        return None;
    }
    let asked = name.to_bytes();
    // This is the only name that means a different function in newer programs.
    if asked == b"cuGraphInstantiate" && version >= 12_000 {
        return Some(c"cuGraphInstantiateWithFlags");
    }
    let suits = |variant: &&Variant| {
        let rest = variant.name.to_bytes().strip_prefix(asked);
        rest.is_some_and(|rest| matches!(rest, [] | [b'_', ..])) && variant.since <= version
    };
    let suiting = || VARIANTS.iter().filter(suits);
    let newest = suiting().map(|variant| variant.since).max()?;
    let of_thread = |variant: &&Variant| {
        is_per_thread(variant.name.to_str().unwrap_or_default()) == (flags & PER_THREAD != 0)
    };
    let mut newest = suiting().filter(|variant| variant.since == newest);
    // A function without a stream parameter has a single variant for both kinds of default stream.
    let first = newest.clone().next();
    newest.find(of_thread).or(first).map(|variant| variant.name)
}

#[cfg(test)]
mod tests {
    use super::meant;

    #[test]
    fn a_look_up_means_the_variant_of_the_requested_version() {
        for (name, version, flags, expected) in [
            (c"cuMemAlloc", 13_000, 0, Some(c"cuMemAlloc_v2")),
            (c"cuMemAlloc", 3_010, 0, Some(c"cuMemAlloc")),
            (c"cuMemAlloc", 1_000, 0, None),
            (c"cuMemFree", 13_000, 2, Some(c"cuMemFree_v2")),
            (c"cuMemAllocAsync", 11_040, 0, Some(c"cuMemAllocAsync")),
            (c"cuMemAllocAsync", 11_040, 2, Some(c"cuMemAllocAsync_ptsz")),
            (
                c"cuStreamBeginCapture",
                13_000,
                2,
                Some(c"cuStreamBeginCapture_v2_ptsz"),
            ),
            (c"cuCtxCreate", 12_040, 0, Some(c"cuCtxCreate_v3")),
            (
                c"cuGraphInstantiate",
                11_080,
                0,
                Some(c"cuGraphInstantiate_v2"),
            ),
            (
                c"cuGraphInstantiate",
                12_000,
                0,
                Some(c"cuGraphInstantiateWithFlags"),
            ),
            (c"cuMemAlloc", 99_000, 0, None),
            (c"cuMemcpy", 13_000, 0, None),
        ] {
            assert_eq!(
                meant(name, version, flags),
                expected,
                "{name:?} {version} {flags}"
            );
        }
    }
}
