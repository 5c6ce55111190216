//! Several devices: their free bytes, and access from one device to another.

#![expect(unsafe_code, reason = "calls the driver's C interface")]

use std::ptr;

use cudarc::driver::sys::{self, CUresult};
use gpu_leak_tests::fake::Fake;

use super::calls::{MIB, answer, context, context_of, free_bytes, ok};

#[test]
fn free_bytes_move_by_pages_on_the_device_in_question() {
    Fake::new().devices(2).here(|_| {
        let [first, second] = [0, 1].map(context_of);
        let free_of = |context| {
            // SAFETY: the context is live.
            ok(unsafe { sys::cuCtxSetCurrent(context) });
            free_bytes()
        };
        let before = [first, second].map(free_of);
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            ok(sys::cuCtxSetCurrent(second));
            let small: [u64; 33] = [(); 33].map(|()| answer(|out| sys::cuMemAlloc_v2(out, 4)));
            assert_eq!(before[1] - free_of(second), 2 * MIB);
            let large: u64 = answer(|out| sys::cuMemAlloc_v2(out, 3 << 20));
            assert_eq!(before[1] - free_of(second), 6 * MIB);
            assert_eq!(before[0], free_of(first));
            for address in small.into_iter().chain([large]) {
                ok(sys::cuMemFree_v2(address));
            }
        }
        assert_eq!(before, [first, second].map(free_of));
    });
}

#[test]
fn the_first_launch_in_a_context_takes_what_was_asked_for() {
    Fake::new().fault("launch_grows:3000000").here(|_| {
        context();
        let before = free_bytes();
        // SAFETY: the out pointers are valid and the handles are live, and the kernel does nothing,
        // here and below.
        unsafe {
            let image = c"image".as_ptr().cast();
            let module = answer(|out| sys::cuModuleLoadData(out, image));
            let kernel = answer(|out| sys::cuModuleGetFunction(out, module, c"kernel".as_ptr()));
            for _ in 0..2 {
                let (null, none) = (ptr::null_mut(), ptr::null_mut());
                let args = ptr::null_mut();
                ok(sys::cuLaunchKernel(
                    kernel, 1, 1, 1, 1, 1, 1, 0, null, none, args,
                ));
                assert_eq!(before - free_bytes(), 4 * MIB);
            }
            ok(sys::cuModuleUnload(module));
            assert_eq!(before - free_bytes(), 4 * MIB, "it stays");
            ok(sys::cuDevicePrimaryCtxReset_v2(0));
            context();
        }
        assert_eq!(before, free_bytes());
    });
}

#[test]
fn peer_access_is_enabled_once_a_direction() {
    Fake::new().devices(2).here(|_| {
        let (second, first) = (context_of(1), context());
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            assert_eq!(answer(|out| sys::cuDeviceCanAccessPeer(out, 0, 1)), 1);
            assert_eq!(answer(|out| sys::cuDeviceCanAccessPeer(out, 1, 1)), 0);
            ok(sys::cuCtxEnablePeerAccess(second, 0));
            assert_eq!(
                sys::cuCtxEnablePeerAccess(second, 0),
                CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
            );
            assert_eq!(
                sys::cuCtxEnablePeerAccess(first, 0),
                CUresult::CUDA_ERROR_INVALID_CONTEXT
            );
            ok(sys::cuCtxSetCurrent(second));
            assert_eq!(
                sys::cuCtxDisablePeerAccess(first),
                CUresult::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED
            );
            ok(sys::cuCtxSetCurrent(first));
            ok(sys::cuCtxDisablePeerAccess(second));
        }
    });
}

#[test]
fn bytes_are_copied_from_device_to_device() {
    Fake::new().devices(2).here(|_| {
        let (second, first) = (context_of(1), context());
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let from: u64 = answer(|out| sys::cuMemAlloc_v2(out, 8));
            ok(sys::cuMemsetD8_v2(from, 3, 8));
            ok(sys::cuCtxSetCurrent(second));
            let to: u64 = answer(|out| sys::cuMemAlloc_v2(out, 8));
            ok(sys::cuMemcpyPeer(to, second, from, first, 8));
            let mut byte = 0_u8;
            ok(sys::cuMemcpyDtoH_v2((&raw mut byte).cast(), to + 7, 1));
            assert_eq!(byte, 3);
        }
    });
}
