//! Memory and events shared between processes.

#![expect(unsafe_code, reason = "calls the driver's C interface")]

use cudarc::driver::sys::{self, CUresult};
use gpu_leak_tests::fake::Fake;

use super::calls::{answer, context, free_bytes, ok, refusal};

const LAZY: u32 = 1;

#[test]
fn an_opened_handle_is_one_mapping_until_its_last_close() {
    Fake::new().here(|control| {
        context();
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let source: u64 = answer(|out| sys::cuMemAlloc_v2(out, 100));
            ok(sys::cuMemsetD8_v2(source, 7, 100));
            let handle = answer(|out| sys::cuIpcGetMemHandle(out, source));
            let mut opened = 0;
            ok(sys::cuIpcOpenMemHandle_v2(&raw mut opened, handle, LAZY));
            assert_ne!(opened, source);
            let mut again = 0;
            ok(sys::cuIpcOpenMemHandle_v2(&raw mut again, handle, LAZY));
            assert_eq!(again, opened);
            assert_eq!(control.live("ipc"), (1, 100));
            let mut byte = 0_u8;
            ok(sys::cuMemcpyDtoH_v2((&raw mut byte).cast(), opened + 99, 1));
            assert_eq!(byte, 7, "the mapping shows the source's bytes");
            assert_eq!(
                sys::cuMemFree_v2(opened),
                CUresult::CUDA_ERROR_INVALID_VALUE
            );
            ok(sys::cuIpcCloseMemHandle(opened));
            assert_eq!(control.live("ipc").0, 1);
            ok(sys::cuIpcCloseMemHandle(opened));
            assert_eq!(control.live("ipc").0, 0);
            assert_eq!(
                sys::cuIpcCloseMemHandle(opened),
                CUresult::CUDA_ERROR_INVALID_VALUE
            );
            assert_eq!(control.live("linear"), (1, 100));
        }
    });
}

#[test]
fn memory_of_another_process_takes_nothing_of_this_one_s_device() {
    Fake::new().here(|control| {
        context();
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let source: u64 = answer(|out| sys::cuMemAlloc_v2(out, 100));
            let mut handle = answer(|out| sys::cuIpcGetMemHandle(out, source));
            let mut broken = handle;
            broken.reserved[0] ^= 1;
            assert_eq!(
                refusal(|out| sys::cuIpcOpenMemHandle_v2(out, broken, LAZY)),
                CUresult::CUDA_ERROR_INVALID_VALUE
            );
            // The second word identifies the process that created the handle.
            handle.reserved[8] ^= 1;
            ok(sys::cuMemFree_v2(source));
            let before = free_bytes();
            let opened: u64 = answer(|out| sys::cuIpcOpenMemHandle_v2(out, handle, LAZY));
            assert_eq!(control.live("ipc"), (1, 100));
            assert_eq!(before, free_bytes());
            ok(sys::cuIpcCloseMemHandle(opened));
        }
    });
}

#[test]
fn only_linear_memory_is_exported_by_ipc() {
    Fake::new().here(|_| {
        context();
        // SAFETY: the out pointers are valid, here and below.
        unsafe {
            let pooled: u64 = answer(|out| sys::cuMemAllocAsync(out, 8, std::ptr::null_mut()));
            assert_eq!(
                refusal(|out| sys::cuIpcGetMemHandle(out, pooled)),
                CUresult::CUDA_ERROR_INVALID_VALUE
            );
        }
    });
}

#[test]
fn an_opened_event_is_an_event_of_its_own() {
    Fake::new().here(|control| {
        context();
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let plain = answer(|out| sys::cuEventCreate(out, 2));
            assert_eq!(
                refusal(|out| sys::cuIpcGetEventHandle(out, plain)),
                CUresult::CUDA_ERROR_INVALID_VALUE
            );
            let shared = answer(|out| sys::cuEventCreate(out, 6));
            let handle = answer(|out| sys::cuIpcGetEventHandle(out, shared));
            let opened = answer(|out| sys::cuIpcOpenEventHandle(out, handle));
            assert_eq!(control.live("event").0, 3);
            for event in [plain, shared, opened] {
                ok(sys::cuEventDestroy_v2(event));
            }
            assert_eq!(control.live("event").0, 0);
        }
    });
}

#[test]
fn a_context_takes_its_ipc_mappings_with_it() {
    Fake::new().here(|control| {
        context();
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let source: u64 = answer(|out| sys::cuMemAlloc_v2(out, 100));
            let handle = answer(|out| sys::cuIpcGetMemHandle(out, source));
            let other = answer(|out| sys::cuCtxCreate_v4(out, std::ptr::null_mut(), 0, 0));
            let _: u64 = answer(|out| sys::cuIpcOpenMemHandle_v2(out, handle, LAZY));
            ok(sys::cuCtxDestroy_v2(other));
        }
        assert_eq!(control.live("ipc").0, 0);
        assert_eq!(control.live("linear").0, 1);
    });
}
