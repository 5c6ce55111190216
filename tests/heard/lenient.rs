//! Calls that the stand-in accepts and a GPU does not: they open handles of this process, and load a
//! fat binary that is none.

#![expect(unsafe_code, reason = "calls functions with handles as parameters")]

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::transmute;

use super::Driver;
use super::calls::{Calls as _, at};

/// Makes all calls.
pub(super) fn all(driver: &Driver<'_>) {
    let module = driver.make("cuModuleLoadFatBinary", &[at(c"image")]);
    driver.call("cuModuleUnload", &[module]);
    let source = driver.make("cuMemAlloc_v2", &[100]);
    let handle = Cell::new([0_u64; 8]);
    driver.call("cuIpcGetMemHandle", &[at(&handle), source]);
    for open in ["cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2"] {
        let pointer = open_handle(driver, open, handle.get());
        driver.assert_only("imported", 100, 0);
        driver.call("cuIpcCloseMemHandle", &[pointer]);
        driver.assert_live("imported", 0);
    }
    driver.call("cuMemFree_v2", &[source]);
    let source = driver.make("cuEventCreate", &[6]);
    driver.call("cuIpcGetEventHandle", &[at(&handle), source]);
    let event = open_handle(driver, "cuIpcOpenEventHandle", handle.get());
    for event in [source, event] {
        driver.call("cuEventDestroy_v2", &[event]);
    }
}

fn open_handle(driver: &Driver<'_>, name: &str, handle: [u64; 8]) -> u64 {
    let (opened, error) = try_open(driver, name, handle);
    assert_eq!(error, 0, "{name}");
    driver.assert_agreed(name);
    opened
}

/// Opens a `CUipcMemHandle` or `CUipcEventHandle`, which are passed by value. Returns the opened
/// object and the result of the call.
pub(super) fn try_open(driver: &Driver<'_>, name: &str, handle: [u64; 8]) -> (u64, u32) {
    #[repr(C)]
    struct Handle([u64; 8]);
    type Open = unsafe extern "C" fn(*mut u64, Handle, u32) -> u32;
    driver.called.borrow_mut().insert(name.to_owned());
    // SAFETY: the function has this signature, or lacks the last parameter, the flags.
    let open = unsafe { transmute::<*mut c_void, Open>(driver.find(name)) };
    let mut opened = 0;
    // SAFETY: the out pointer is valid.
    let error = unsafe { open(&raw mut opened, Handle(handle), 1) };
    (opened, error)
}
