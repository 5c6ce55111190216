//! Reference-counted contexts: attached contexts, primary contexts, and green contexts, which are
//! parts of primary ones.

#![expect(unsafe_code, reason = "calls the driver's C interface")]

use std::ptr;

use cudarc::driver::{result, sys, sys::CUresult};
use gpu_leak_tests::fake::Fake;

use super::calls::{answer, context, ok, refusal};

#[test]
fn a_created_context_ends_with_its_last_detach() {
    Fake::new().here(|control| {
        let primary = context();
        // SAFETY: the context is live.
        ok(unsafe { sys::cuCtxDetach(primary) });
        assert_eq!(control.live("context").0, 1);
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let context = answer(|out| sys::cuCtxCreate_v4(out, ptr::null_mut(), 0, 0));
            let _: u64 = answer(|out| sys::cuMemAlloc_v2(out, 100));
            assert_eq!(answer(|out| sys::cuCtxAttach(out, 0)), context);
            ok(sys::cuCtxDetach(context));
            assert_eq!(
                (control.live("context").0, control.live("linear").0),
                (2, 1)
            );
            ok(sys::cuCtxDetach(context));
            assert_eq!(
                (control.live("context").0, control.live("linear").0),
                (1, 0)
            );
            assert_eq!(
                sys::cuCtxDetach(context),
                CUresult::CUDA_ERROR_INVALID_CONTEXT
            );
        }
    });
}

#[test]
fn a_primary_context_ends_with_its_last_release_and_is_active_until_then() {
    Fake::new().here(|control| {
        let active = || {
            let (mut flags, mut active) = (0, 0);
            // SAFETY: the out pointers are valid.
            ok(unsafe { sys::cuDevicePrimaryCtxGetState(0, &raw mut flags, &raw mut active) });
            active == 1
        };
        result::init().expect("a driver");
        assert!(!active());
        context();
        context();
        // SAFETY: the out pointers are valid and the devices exist, here and below.
        unsafe {
            let _: u64 = answer(|out| sys::cuMemAlloc_v2(out, 100));
            ok(sys::cuDevicePrimaryCtxRelease_v2(0));
            assert!(active());
            ok(sys::cuDevicePrimaryCtxRelease_v2(0));
            assert!(!active());
            assert_eq!(control.live("linear").0, 0);
            assert_eq!(
                sys::cuDevicePrimaryCtxRelease_v2(0),
                CUresult::CUDA_ERROR_INVALID_CONTEXT
            );
        }
    });
}

/// Creates a green context of the first device.
fn green() -> sys::CUgreenCtx {
    // SAFETY: zero is a valid value of every field, and the out pointers are valid, here and below.
    unsafe {
        let kind = sys::CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM;
        let mut resource = answer(|out| sys::cuDeviceGetDevResource(0, out, kind));
        let descriptor = answer(|out| sys::cuDevResourceGenerateDesc(out, &raw mut resource, 1));
        answer(|out| sys::cuGreenCtxCreate(out, descriptor, 0, 1))
    }
}

#[test]
fn a_green_context_retains_the_primary_one() {
    Fake::new().here(|control| {
        result::init().expect("a driver");
        let first = green();
        assert_eq!(control.live("context").0, 1);
        let second = green();
        assert_eq!(control.live("green-context").0, 2);
        assert_eq!(control.live("context").0, 1);
        // SAFETY: the driver checks the handles.
        unsafe {
            assert_eq!(
                sys::cuDevicePrimaryCtxReset_v2(0),
                CUresult::CUDA_ERROR_NOT_PERMITTED
            );
            ok(sys::cuGreenCtxDestroy(first));
            assert_eq!(
                sys::cuGreenCtxDestroy(first),
                CUresult::CUDA_ERROR_INVALID_CONTEXT
            );
            assert_eq!(control.live("context").0, 1);
            ok(sys::cuGreenCtxDestroy(second));
        }
        assert_eq!(control.live("context").0, 0);
    });
}

#[test]
fn a_green_context_leaves_its_streams_and_memory_behind() {
    Fake::new().here(|control| {
        let primary = context();
        let green = green();
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let view = answer(|out| sys::cuCtxFromGreenCtx(out, green));
            assert_ne!(view, primary);
            let id = |context| answer(|out| sys::cuCtxGetId(context, out));
            assert_ne!(id(view), id(primary));
            ok(sys::cuCtxSetCurrent(view));
            let address: u64 = answer(|out| sys::cuMemAlloc_v2(out, 100));
            let made = answer(|out| sys::cuGreenCtxStreamCreate(out, green, 1, 0));
            let current = answer(|out| sys::cuStreamCreate(out, 1));
            assert_eq!(answer(|out| sys::cuStreamGetGreenCtx(current, out)), green);
            ok(sys::cuGreenCtxDestroy(green));
            assert_eq!(
                refusal(|out| sys::cuMemAlloc_v2(out, 1)),
                CUresult::CUDA_ERROR_INVALID_CONTEXT
            );
            ok(sys::cuCtxSetCurrent(primary));
            for stream in [made, current] {
                assert_eq!(
                    sys::cuStreamDestroy_v2(stream),
                    CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
                );
            }
            assert_eq!(control.live("stream").0, 2);
            assert_eq!(control.live("linear"), (1, 100));
            ok(sys::cuMemFree_v2(address));
            ok(sys::cuDevicePrimaryCtxReset_v2(0));
            assert_eq!(control.live("stream").0, 2);
        }
    });
}
