//! Pools across processes: exports, imports, and the current pool of a device.

#![expect(unsafe_code, reason = "calls the driver's C interface")]

use std::mem::zeroed;
use std::os::fd::FromRawFd as _;
use std::ptr;

use cudarc::driver::sys::{self, CUresult};
use gpu_leak_tests::fake::Fake;

use super::calls::{answer, context, free_bytes, ok, refusal};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
const DESCRIPTOR: sys::CUmemAllocationHandleType =
    sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

fn pool(handles: sys::CUmemAllocationHandleType) -> sys::CUmemoryPool {
    // SAFETY: zero is a valid value of every field, and the out pointer is valid.
    unsafe {
        let mut props: sys::CUmemPoolProps = zeroed();
        props.handleTypes = handles;
        props.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        answer(|out| sys::cuMemPoolCreate(out, &raw const props))
    }
}

fn export(pool: sys::CUmemoryPool) -> Result<i32, CUresult> {
    let mut descriptor = 0;
    let out = (&raw mut descriptor).cast();
    // SAFETY: the out pointer is valid, and the pool is live.
    match unsafe { sys::cuMemPoolExportToShareableHandle(out, pool, DESCRIPTOR, 0) } {
        CUresult::CUDA_SUCCESS => Ok(descriptor),
        error => Err(error),
    }
}

fn import(descriptor: i32) -> sys::CUmemoryPool {
    let handle = ptr::without_provenance_mut(descriptor as usize);
    // SAFETY: the out pointer is valid, and the driver checks the descriptor.
    answer(|out| unsafe { sys::cuMemPoolImportFromShareableHandle(out, handle, DESCRIPTOR, 0) })
}

fn from_pool(pool: sys::CUmemoryPool, size: usize) -> u64 {
    // SAFETY: the out pointer is valid, and the pool is live.
    answer(|out| unsafe { sys::cuMemAllocFromPoolAsync(out, size, pool, ptr::null_mut()) })
}

#[test]
fn an_imported_allocation_is_freed_apart_from_the_exported_one() {
    Fake::new().here(|control| {
        context();
        let exported = pool(DESCRIPTOR);
        let address = from_pool(exported, 100);
        let descriptor = export(exported).expect("a pool with handles");
        let imported = import(descriptor);
        // SAFETY: the out pointers are valid and the handles are live, and this test owns the
        // descriptor, here and below.
        unsafe {
            drop(std::fs::File::from_raw_fd(descriptor));
            assert_ne!(imported, exported);
            assert_eq!(control.live("pool").0, 2);
            let null = ptr::null_mut();
            assert_eq!(
                refusal(|out| sys::cuMemAllocFromPoolAsync(out, 8, imported, null)),
                INVALID
            );
            assert_eq!(sys::cuDeviceSetMemPool(0, imported), INVALID);
            let before = free_bytes();
            let mut data = answer(|out| sys::cuMemPoolExportPointer(out, address));
            let [first, second]: [u64; 2] = [(); 2]
                .map(|()| answer(|out| sys::cuMemPoolImportPointer(out, imported, &raw mut data)));
            assert_eq!(before, free_bytes(), "the memory is the exporter's");
            assert_eq!(control.live("pool-import"), (2, 200));
            ok(sys::cuMemsetD8_v2(address, 5, 100));
            let mut byte = 0_u8;
            ok(sys::cuMemcpyDtoH_v2((&raw mut byte).cast(), first + 99, 1));
            assert_eq!(byte, 5);
            ok(sys::cuMemFreeAsync(first, null));
            ok(sys::cuMemPoolDestroy(imported));
            ok(sys::cuMemFree_v2(second));
            assert_eq!(control.live("pool-import").0, 0);
            ok(sys::cuMemFreeAsync(address, null));
            ok(sys::cuMemPoolDestroy(exported));
        }
        assert_eq!(control.live("pool").0, 0);
    });
}

#[test]
fn only_a_pool_made_for_handles_has_any() {
    Fake::new().here(|_| {
        context();
        let pool = pool(sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE);
        assert_eq!(export(pool), Err(INVALID));
        let address = from_pool(pool, 100);
        // SAFETY: the out pointer is valid, and the address is live.
        let refused = refusal(|out| unsafe { sys::cuMemPoolExportPointer(out, address) });
        assert_eq!(refused, INVALID);
    });
}

#[test]
fn a_destroyed_current_pool_makes_room_for_the_default_one() {
    Fake::new().here(|control| {
        context();
        let own = pool(DESCRIPTOR);
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let current = || answer(|out| sys::cuDeviceGetMemPool(out, 0));
            let default = answer(|out| sys::cuDeviceGetDefaultMemPool(out, 0));
            ok(sys::cuDeviceSetMemPool(0, own));
            assert_eq!(current(), own);
            let address: u64 = answer(|out| sys::cuMemAllocAsync(out, 100, ptr::null_mut()));
            let used = |pool| {
                let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
                answer(|out: *mut u64| sys::cuMemPoolGetAttribute(pool, attribute, out.cast()))
            };
            assert_eq!((used(own), used(default)), (512, 0));
            ok(sys::cuMemPoolDestroy(own));
            assert_eq!(current(), default);
            assert_eq!(control.live("stream-ordered"), (1, 100));
            ok(sys::cuMemFreeAsync(address, ptr::null_mut()));
            assert_eq!(sys::cuMemPoolDestroy(default), INVALID);
        }
    });
}

#[test]
fn a_managed_pool_takes_nothing_of_the_device_before_it_is_used() {
    Fake::new().here(|control| {
        context();
        let before = free_bytes();
        // SAFETY: the out pointer is valid. The properties begin with the type of memory, the types
        // of handles and the location. The names of these fields depend on the CUDA version of the
        // bindings.
        let managed = answer(|out| unsafe {
            let mut props: sys::CUmemPoolProps = zeroed();
            (&raw mut props).cast::<[i32; 4]>().write([2, 0, 1, 0]);
            sys::cuMemPoolCreate(out, &raw const props)
        });
        from_pool(managed, 100);
        assert_eq!(control.live("stream-ordered"), (1, 100));
        assert_eq!(before, free_bytes());
    });
}
