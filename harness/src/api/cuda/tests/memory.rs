//! Tests calls that allocate and free memory, both successful and failed ones.

use super::{
    allocate, anomalies, free, interception, live, stream, summary, watched_context, with_driver,
};
use crate::api::Interception;
use crate::capture::thread::thread_name;
use crate::device::{pools, synchronise};
use crate::ledger::{self, Anomaly, Kind, Place};
use crate::report::symbols;

#[test]
fn every_way_to_allocate_is_seen_with_its_bytes_and_its_place() {
    with_driver("", || {
        watched_context();
        let gpu = Place::cuda(0);
        let linear = allocate(1);
        let mut pitch = 0_usize;
        let pitched = made!(cuMemAllocPitch_v2(
            &raw mut pitch => *mut usize, 100 => usize, 7 => usize, 4 => u32));
        let managed = made!(cuMemAllocManaged(4096 => usize, 1 => u32));
        let stream = stream();
        let ordered = made!(cuMemAllocAsync(400 => usize, stream => u64));
        let pinned = made!(cuMemHostAlloc(8192 => usize, 0 => u32));
        let page_locked = made!(cuMemAllocHost_v2(100 => usize));
        let own = vec![0_u8; 4096];
        let address = own.as_ptr() as u64;
        let registered = cuda!(cuMemHostRegister_v2(address => u64, own.len() => usize, 0 => u32));
        assert_eq!(registered, 0);
        let event = made!(cuEventCreate(0 => u32));
        assert_eq!(
            summary(),
            [
                (Kind::Linear, gpu, 1),
                (Kind::Pitched, gpu, pitch as u64 * 7),
                (Kind::Managed, gpu, 4096),
                (Kind::Stream, gpu, 0),
                (Kind::StreamOrdered, gpu, 400),
                (Kind::Pinned, Place::HOST, 8192),
                (Kind::Pinned, Place::HOST, 100),
                (Kind::Registered, Place::HOST, 4096),
                (Kind::Event, gpu, 0),
            ]
        );
        for pointer in [linear, pitched, managed] {
            assert_eq!(free(pointer), 0);
        }
        for pointer in [pinned, page_locked] {
            assert_eq!(cuda!(cuMemFreeHost(pointer => u64)), 0);
        }
        assert_eq!(cuda!(cuMemFreeAsync(ordered => u64, stream => u64)), 0);
        assert_eq!(cuda!(cuMemHostUnregister(address => u64)), 0);
        assert_eq!(cuda!(cuEventDestroy_v2(event => u64)), 0);
        assert_eq!(cuda!(cuStreamDestroy_v2(stream => u64)), 0);
        assert_eq!(summary(), []);
        assert_eq!(anomalies(), []);
        assert_eq!(ledger::live().unknown_frees(), 0);
        assert_eq!(interception(), Interception::Whole);
    });
}

#[test]
fn code_and_graphs_are_seen() {
    with_driver("", || {
        watched_context();
        let module = made!(cuModuleLoadData(c"image".as_ptr() => *const std::ffi::c_char));
        let graph = made!(cuGraphCreate(0 => u32));
        let exec = made!(cuGraphInstantiateWithFlags(graph => u64, 0 => u64));
        let kinds: Vec<_> = live().iter().map(|record| record.made.kind).collect();
        assert_eq!(kinds, [Kind::Module, Kind::GraphHandle, Kind::ExecGraph]);
        assert_eq!(cuda!(cuGraphExecDestroy(exec => u64)), 0);
        assert_eq!(cuda!(cuGraphDestroy(graph => u64)), 0);
        assert_eq!(cuda!(cuModuleUnload(module => u64)), 0);
        assert_eq!(summary(), []);
    });
}

#[inline(never)]
fn the_line_that_takes_it() -> u64 {
    std::hint::black_box(allocate(64))
}

#[test]
fn a_record_knows_its_thread_its_scope_and_its_line() {
    with_driver("", || {
        watched_context();
        let context = made!(cuCtxGetCurrent());
        let thread = std::thread::Builder::new().name("data-loader".to_owned());
        let loader = thread.spawn(move || {
            gpu_leak_interpose::set_token(7);
            assert_eq!(cuda!(cuCtxSetCurrent(context => u64)), 0);
            the_line_that_takes_it()
        });
        loader.unwrap().join().unwrap();
        let caller = live()[0].made.caller;
        assert_eq!(caller.scope, ledger::ScopeId(7));
        assert_eq!(thread_name(caller.thread), "data-loader");
        let frames = symbols::frames(caller.stack, &[]);
        let names: Vec<_> = frames
            .iter()
            .filter_map(|it| it.function.as_deref())
            .collect();
        let line = |name: &&str| name.contains("the_line_that_takes_it");
        assert!(names.iter().any(line), "{names:#?}");
    });
}

#[test]
fn a_free_that_fails_puts_the_record_back() {
    with_driver("fail:cuMemFree_v2=999@1", || {
        watched_context();
        let pointer = allocate(64);
        assert_eq!(free(pointer), 999);
        assert_eq!(summary(), [(Kind::Linear, Place::cuda(0), 64)]);
        let failed = anomalies();
        let [Anomaly::FailedFree(call)] = failed[..] else {
            panic!("{failed:?}");
        };
        assert_eq!(call.error, 999);
        assert!(
            !ledger::live().stacks().frames(call.caller.stack).is_empty(),
            "a report must say where the free failed"
        );
        assert_eq!(free(pointer), 0);
        assert_eq!(summary(), []);
    });
}

#[test]
fn an_allocation_that_fails_is_noted_and_makes_no_record() {
    with_driver("fail:cuMemAlloc_v2=2", || {
        watched_context();
        let mut pointer = 0x1234_u64;
        let error = cuda!(cuMemAlloc_v2(&raw mut pointer => *mut u64, 64 => usize));
        assert_eq!(error, 2);
        assert_eq!(summary(), []);
        assert!(matches!(
            anomalies()[..],
            [Anomaly::FailedCreation {
                kind: Kind::Linear,
                bytes: 64,
                error: 2,
                ..
            }]
        ));
    });
}

#[test]
fn freeing_null_is_nothing() {
    with_driver("", || {
        watched_context();
        free(0);
        assert_eq!(ledger::live().unknown_frees(), 0);
        assert_eq!(anomalies(), []);
    });
}

#[test]
fn an_address_given_out_again_before_its_free_returns_keeps_its_new_record() {
    with_driver("delay:cuMemFree_v2", || {
        watched_context();
        let context = made!(cuCtxGetCurrent());
        let old = allocate(64);
        std::thread::scope(|scope| {
            let freeing = scope.spawn(|| {
                assert_eq!(cuda!(cuCtxSetCurrent(context => u64)), 0);
                free(old)
            });
            cuda!(fake_cuda_wait_held(c"cuMemFree_v2".as_ptr() => *const std::ffi::c_char));
            let new = allocate(64);
            assert_eq!(
                new, old,
                "the stand-in gives an address out again immediately"
            );
            cuda!(fake_cuda_release(c"cuMemFree_v2".as_ptr() => *const std::ffi::c_char));
            assert_eq!(freeing.join().unwrap(), 0);
        });
        assert_eq!(summary(), [(Kind::Linear, Place::cuda(0), 64)]);
        assert_eq!(anomalies(), []);
    });
}

#[test]
fn memory_that_a_capture_allocates_and_frees_belongs_to_the_graph() {
    with_driver("", || {
        watched_context();
        let stream = stream();
        let pool = made!(cuDeviceGetDefaultMemPool(0 => i32));
        let kept = u64::MAX;
        // `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`
        let error =
            cuda!(cuMemPoolSetAttribute(pool => u64, 4 => i32, &raw const kept => *const u64));
        assert_eq!(error, 0);
        let before = made!(cuMemAllocAsync(64 => usize, stream => u64));
        assert_eq!(cuda!(cuMemFreeAsync(before => u64, stream => u64)), 0);
        assert_eq!(synchronise::contexts(|_| true), []);
        let reserved_once_emptied = || pools::readings(true)[0].reserved;
        assert_eq!(cuda!(cuStreamBeginCapture_v2(stream => u64, 0 => u32)), 0);
        let pointer = made!(cuMemAllocAsync(64 => usize, stream => u64));
        assert_eq!(cuda!(cuMemFreeAsync(pointer => u64, stream => u64)), 0);
        assert_eq!(synchronise::contexts(|_| true), [], "the capture continues");
        assert_eq!(
            reserved_once_emptied(),
            Some(32 << 20),
            "the pool is not emptied during a capture"
        );
        let mut graph = 0_u64;
        let error = cuda!(cuStreamEndCapture(stream => u64, &raw mut graph => *mut u64));
        assert_eq!(error, 0);
        let kinds: Vec<_> = live().iter().map(|record| record.made.kind).collect();
        assert_eq!(kinds, [Kind::Stream, Kind::GraphHandle]);
        assert_eq!(ledger::live().unknown_frees(), 0);
        assert_eq!(reserved_once_emptied(), Some(0));
        assert_eq!(anomalies(), []);
    });
}

#[test]
fn a_captured_free_of_plain_memory_frees_nothing() {
    with_driver("fail:cuMemFreeAsync=900", || {
        watched_context();
        let stream = stream();
        let pointer = made!(cuMemAllocAsync(64 => usize, stream => u64));
        assert_eq!(cuda!(cuMemFreeAsync(pointer => u64, stream => u64)), 900);
        assert_eq!(live().len(), 2);
    });
}

/// Stream-ordered memory belongs to the device of its stream or pool, which need not be the device
/// of the current context.
#[test]
fn stream_ordered_memory_is_where_the_driver_says() {
    with_driver("", || {
        watched_context();
        let first = stream();
        assert_eq!(cuda!(cuCtxSetCurrent(0 => u64)), 0);
        made!(cuMemAllocAsync(100 => usize, first => u64));

        let second = made!(cuDevicePrimaryCtxRetain(1 => i32));
        assert_eq!(cuda!(cuCtxSetCurrent(second => u64)), 0);
        made!(cuMemAllocAsync(200 => usize, first => u64));
        let pool = made!(cuDeviceGetDefaultMemPool(0 => i32));
        made!(cuMemAllocFromPoolAsync(300 => usize, pool => u64, stream() => u64));
        made!(cuMemAllocAsync(400 => usize, 0 => u64));
        let memory = summary()
            .into_iter()
            .filter(|it| it.0 == Kind::StreamOrdered);
        let places: Vec<_> = memory.map(|(_, place, bytes)| (place, bytes)).collect();
        let (first, second) = (Place::cuda(0), Place::cuda(1));
        assert_eq!(
            places,
            [(first, 100), (first, 200), (first, 300), (second, 400)]
        );
    });
}
