//! The first versions of calls, which programs built for old CUDA versions still get by the plain
//! names.

#![expect(unsafe_code, reason = "calls the driver's C interface")]

use std::ffi::{CStr, c_void};
use std::mem::transmute;

use cudarc::driver::sys::{self, CUresult};
use gpu_leak_tests::fake::Fake;

use super::calls::{MIB, answer, context, free_bytes, look_up, ok};

fn first_version(name: &CStr) -> *mut c_void {
    look_up(name, 2000)
}

#[test]
fn memory_with_addresses_of_32_bits_is_memory_of_the_device() {
    Fake::new().here(|control| {
        context();
        let before = free_bytes();
        // SAFETY: the first versions have these signatures, and the out pointers are valid.
        unsafe {
            let allocate: unsafe extern "C" fn(*mut u32, u32) -> CUresult =
                transmute(first_version(c"cuMemAlloc"));
            let pitched: unsafe extern "C" fn(*mut u32, *mut u32, u32, u32, u32) -> CUresult =
                transmute(first_version(c"cuMemAllocPitch"));
            let free: unsafe extern "C" fn(u32) -> CUresult =
                transmute(first_version(c"cuMemFree"));
            let narrow = answer(|out| allocate(out, 100));
            assert_eq!(control.live("linear"), (1, 100));
            assert_eq!(before - free_bytes(), 2 * MIB);
            let (mut rows, mut pitch) = (0, 0);
            ok(pitched(&raw mut rows, &raw mut pitch, 10, 3, 4));
            assert_eq!(control.live("pitched"), (1, u64::from(pitch) * 3));
            ok(sys::cuMemsetD8_v2(u64::from(narrow), 1, 100));
            ok(free(narrow));
            ok(free(rows));
        }
        assert_eq!(before, free_bytes());
    });
}

#[test]
fn the_first_array_calls_have_narrow_descriptors() {
    Fake::new().here(|control| {
        context();
        // SAFETY: the first versions have these signatures, and the pointers are valid.
        unsafe {
            type Create = unsafe extern "C" fn(*mut sys::CUarray, *const u32) -> CUresult;
            let flat: Create = transmute(first_version(c"cuArrayCreate"));
            let deep: Create = transmute(first_version(c"cuArray3DCreate"));
            // Width, height and, for the second, depth; 32-bit floats; one channel; no flags.
            let arrays = [
                answer(|out| flat(out, [10, 2, 0x20, 1].as_ptr())),
                answer(|out| deep(out, [10, 2, 3, 0x20, 1, 0].as_ptr())),
            ];
            assert_eq!(control.live("array"), (2, 80 + 240));
            for array in arrays {
                ok(sys::cuArrayDestroy(array));
            }
        }
    });
}
