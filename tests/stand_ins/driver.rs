//! Behaviour of the driver that cudarc's safe interface does not cover: pools and their reserve,
//! what ends with a context, and handles and addresses that are reused immediately.

#![expect(unsafe_code, reason = "calls the driver's C interface")]

use cudarc::driver::{result, sys};
use gpu_leak_tests::fake::{Control, Fake};
use sys::CUresult;

use super::calls::{MIB, answer, context};

fn allocate(size: usize) -> u64 {
    // SAFETY: the out pointer is valid.
    answer(|out| unsafe { sys::cuMemAlloc_v2(out, size) })
}

fn free(address: u64) -> CUresult {
    // SAFETY: the driver checks the address.
    unsafe { sys::cuMemFree_v2(address) }
}

/// Returns the reserved and used bytes of the default pool.
fn pool_bytes(pool: sys::CUmemoryPool) -> (u64, u64) {
    use sys::CUmemPool_attribute::{
        CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
    };
    let read = |attribute| {
        // SAFETY: these attributes are 64 bits wide.
        answer(|out: *mut u64| unsafe { sys::cuMemPoolGetAttribute(pool, attribute, out.cast()) })
    };
    (
        read(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
        read(CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
    )
}

#[test]
fn a_freed_address_is_given_out_next() {
    Fake::new().here(|_| {
        context();
        let addresses: Vec<u64> = (0..8).map(|_| allocate(100)).collect();
        assert_eq!(free(addresses[3]), CUresult::CUDA_SUCCESS);
        assert_eq!(free(addresses[3]), CUresult::CUDA_ERROR_INVALID_VALUE);
        assert_eq!(allocate(90), addresses[3]);
    });
}

#[test]
fn a_pool_returns_unpinned_memory_at_a_synchronisation() {
    Fake::new().here(|_| {
        context();
        let null = std::ptr::null_mut();
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let pool = answer(|out| sys::cuDeviceGetDefaultMemPool(out, 0));
            let small: u64 = answer(|out| sys::cuMemAllocAsync(out, 1, null));
            assert_eq!(pool_bytes(pool), (32 * MIB, 512));
            assert_eq!(sys::cuMemFreeAsync(small, null), CUresult::CUDA_SUCCESS);
            // The host has not yet observed that the free is complete, so a trim leaves the block.
            assert_eq!(sys::cuMemPoolTrimTo(pool, 0), CUresult::CUDA_SUCCESS);
            assert_eq!(pool_bytes(pool), (32 * MIB, 0));
            assert_eq!(sys::cuCtxSynchronize(), CUresult::CUDA_SUCCESS);
            assert_eq!(pool_bytes(pool), (0, 0));
        }
    });
}

#[test]
fn a_pool_with_a_threshold_keeps_memory_until_it_is_trimmed() {
    Fake::new().here(|_| {
        context();
        let null = std::ptr::null_mut();
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let pool = answer(|out| sys::cuDeviceGetDefaultMemPool(out, 0));
            let mut keep = u64::MAX;
            let threshold = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            let set = sys::cuMemPoolSetAttribute(pool, threshold, (&raw mut keep).cast());
            assert_eq!(set, CUresult::CUDA_SUCCESS);
            let pinning: u64 = answer(|out| sys::cuMemAllocAsync(out, 20 << 20, null));
            let other: u64 = answer(|out| sys::cuMemAllocAsync(out, 20 << 20, null));
            sys::cuMemFreeAsync(other, null);
            sys::cuCtxSynchronize();
            assert_eq!(pool_bytes(pool).0, 64 * MIB);
            sys::cuMemPoolTrimTo(pool, 0);
            assert_eq!(pool_bytes(pool).0, 32 * MIB);
            sys::cuMemFreeAsync(pinning, null);
            sys::cuCtxSynchronize();
            sys::cuMemPoolTrimTo(pool, 0);
            assert_eq!(pool_bytes(pool).0, 0);
        }
    });
}

#[test]
fn a_destroyed_pool_lives_on_in_its_allocations() {
    Fake::new().here(|control| {
        context();
        let null = std::ptr::null_mut();
        // SAFETY: the out pointers are valid and the handles are live; zero is a valid value of
        // every field of the properties.
        unsafe {
            let mut props: sys::CUmemPoolProps = std::mem::zeroed();
            props.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
            let pool = answer(|out| sys::cuMemPoolCreate(out, &raw const props));
            assert_eq!(control.live("pool").0, 1);
            let address: u64 = answer(|out| sys::cuMemAllocFromPoolAsync(out, 64, pool, null));
            assert_eq!(sys::cuMemPoolDestroy(pool), CUresult::CUDA_SUCCESS);
            assert_eq!(control.live("pool").0, 0);
            let mut more = 0;
            let refused = sys::cuMemAllocFromPoolAsync(&raw mut more, 64, pool, null);
            assert_eq!(refused, CUresult::CUDA_ERROR_INVALID_VALUE);
            assert_eq!(control.live("stream-ordered"), (1, 64));
            assert_eq!(sys::cuMemFreeAsync(address, null), CUresult::CUDA_SUCCESS);
            assert_eq!(control.live("stream-ordered"), (0, 0));
        }
    });
}

/// Creates one object of each kind that ends with its context, and one that does not.
fn make_one_of_each() {
    let null = std::ptr::null_mut();
    // SAFETY: the out pointers are valid.
    unsafe {
        let _: sys::CUstream = answer(|out| sys::cuStreamCreate(out, 0));
        let _: sys::CUevent = answer(|out| sys::cuEventCreate(out, 0));
        let _: sys::CUmodule = answer(|out| sys::cuModuleLoadData(out, c"image".as_ptr().cast()));
        let _: *mut std::ffi::c_void = answer(|out| sys::cuMemAllocHost_v2(out, 10));
        let _: u64 = answer(|out| sys::cuMemAllocManaged(out, 10, 1));
        let _: u64 = answer(|out| sys::cuMemAllocAsync(out, 10, null));
    }
    allocate(10);
}

fn live(control: &Control) -> [u64; 7] {
    [
        "stream",
        "event",
        "module",
        "pinned",
        "managed",
        "linear",
        "stream-ordered",
    ]
    .map(|kind| control.live(kind).0)
}

#[test]
fn a_context_takes_with_it_all_but_stream_ordered_memory() {
    Fake::new().here(|control| {
        result::init().expect("a driver");
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let context = answer(|out| sys::cuCtxCreate_v4(out, std::ptr::null_mut(), 0, 0));
            make_one_of_each();
            assert_eq!(live(control), [1; 7]);
            assert_eq!(sys::cuCtxDestroy_v2(context), CUresult::CUDA_SUCCESS);
        }
        assert_eq!(live(control), [0, 0, 0, 0, 0, 0, 1]);
    });
}

#[test]
fn a_reset_ends_the_primary_context_and_the_next_one_has_a_new_id() {
    Fake::new().here(|control| {
        let first = context();
        // SAFETY: the out pointers are valid, and the driver checks the handles, here and below.
        unsafe {
            let id = answer(|out| sys::cuCtxGetId(first, out));
            make_one_of_each();
            assert_eq!(sys::cuDevicePrimaryCtxReset_v2(0), CUresult::CUDA_SUCCESS);
            assert_eq!(live(control), [0, 0, 0, 0, 0, 0, 1]);
            assert_eq!(
                sys::cuCtxSynchronize(),
                CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
            );
            assert_ne!(answer(|out| sys::cuCtxGetId(context(), out)), id);
        }
        assert_eq!(control.contexts_made(), 2);
    });
}

#[test]
fn physical_memory_lives_while_a_handle_or_a_mapping_holds_it() {
    Fake::new().here(|control| {
        context();
        let size = 2 * MIB as usize;
        // SAFETY: the out pointers are valid and the handles are live; zero is a valid value of
        // every field of the properties.
        unsafe {
            let mut props: sys::CUmemAllocationProp = std::mem::zeroed();
            props.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
            props.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
            let handle = answer(|out| sys::cuMemCreate(out, size, &raw const props, 0));
            let range: u64 = answer(|out| sys::cuMemAddressReserve(out, 2 * size, 0, 0, 0));
            for place in [range, range + size as u64] {
                assert_eq!(
                    sys::cuMemMap(place, size, 0, handle, 0),
                    CUresult::CUDA_SUCCESS
                );
            }
            assert_eq!(sys::cuMemRelease(handle), CUresult::CUDA_SUCCESS);
            assert_eq!(sys::cuMemsetD8_v2(range, 9, size), CUresult::CUDA_SUCCESS);
            let mut byte = 0_u8;
            sys::cuMemcpyDtoH_v2((&raw mut byte).cast(), range + size as u64, 1);
            assert_eq!(byte, 9, "two mappings of one memory show the same bytes");
            assert_eq!(control.live("physical"), (1, 2 * MIB));
            assert_eq!(sys::cuMemUnmap(range, 2 * size), CUresult::CUDA_SUCCESS);
            assert_eq!(control.live("physical"), (0, 0));
            assert_eq!(
                sys::cuMemAddressFree(range, 2 * size),
                CUresult::CUDA_SUCCESS
            );
            assert_eq!(control.live("address-range"), (0, 0));
        }
    });
}

#[test]
fn graph_memory_is_reserved_from_the_launch_to_the_trim() {
    Fake::new().here(|control| {
        context();
        let attribute = |attribute| {
            // SAFETY: these attributes are 64 bits wide.
            answer(|out: *mut u64| unsafe {
                sys::cuDeviceGetGraphMemAttribute(0, attribute, out.cast())
            })
        };
        let used = || attribute(sys::CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
        let reserved =
            || attribute(sys::CUgraphMem_attribute::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let stream = answer(|out| sys::cuStreamCreate(out, 1));
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
            assert_eq!(
                sys::cuStreamBeginCapture_v2(stream, mode),
                CUresult::CUDA_SUCCESS
            );
            let address: u64 = answer(|out| sys::cuMemAllocAsync(out, 100, stream));
            let graph = answer(|out| sys::cuStreamEndCapture(stream, out));
            let exec = answer(|out| sys::cuGraphInstantiateWithFlags(out, graph, 0));
            assert_eq!((used(), reserved()), (0, 0));
            sys::cuGraphLaunch(exec, stream);
            assert_eq!((used(), reserved()), (32 * MIB, 32 * MIB));
            assert_eq!(control.live("graph-memory"), (1, 100));
            assert_eq!(free(address), CUresult::CUDA_SUCCESS);
            assert_eq!((used(), reserved()), (0, 32 * MIB));
            sys::cuGraphExecDestroy(exec);
            sys::cuGraphDestroy(graph);
            sys::cuDeviceGraphMemTrim(0);
            assert_eq!(reserved(), 0);
        }
    });
}

#[test]
fn synchronising_a_context_invalidates_its_capture() {
    Fake::new().here(|control| {
        context();
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let stream = answer(|out| sys::cuStreamCreate(out, 1));
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
            sys::cuStreamBeginCapture_v2(stream, mode);
            allocate(1);
            assert_eq!(
                sys::cuCtxSynchronize(),
                CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
            );
            let mut graph = std::ptr::null_mut();
            let ended = sys::cuStreamEndCapture(stream, &raw mut graph);
            assert_eq!(ended, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
            assert!(graph.is_null());
        }
        assert_eq!(control.live("graph").0, 0);
    });
}

#[test]
fn a_function_is_found_by_its_plain_name_in_the_version_asked_for() {
    Fake::new().here(|control| {
        context();
        let find = |name: &std::ffi::CStr, version| {
            let flags = 0;
            // SAFETY: the out pointers are valid, and the name is a C string.
            answer(|out| unsafe {
                sys::cuGetProcAddress_v2(name.as_ptr(), out, version, flags, std::ptr::null_mut())
            })
        };
        let create = find(c"cuCtxCreate", 12_000);
        assert_ne!(create, find(c"cuCtxCreate", 13_000));
        let allocate = find(c"cuMemAlloc", 13_000);
        // SAFETY: the function is `cuMemAlloc_v2`, which has this signature, and the out pointer is
        // valid.
        let address: u64 = answer(|out| unsafe {
            let allocate: unsafe extern "C" fn(*mut u64, usize) -> CUresult =
                std::mem::transmute(allocate);
            allocate(out, 5)
        });
        assert_eq!(control.live("linear"), (1, 5));
        assert_eq!(free(address), CUresult::CUDA_SUCCESS);
    });
}
