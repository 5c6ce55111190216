//! The source as a whole, against the stand-ins for libcuda and libcupti.
//!
//! A process has one subscription and one ledger, so each test runs itself again in a process of
//! its own, where the stand-ins are what the loader finds.

#![expect(unsafe_code, reason = "the driver's interface is C")]

use std::ffi::CString;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::{Unavailable, start};
use crate::capture::thread::thread_name;
use crate::device::dl::Library;
use crate::device::{contexts, exit, memory, pools, quiesce};
use crate::ledger::event::{ContextEnd, SourceLoss};
use crate::ledger::{self, Anomaly, Kind, Place, Record};

const CHILD: &str = "GPU_LEAK_CHECK_TEST_CHILD";

/// Runs `body` in a process whose driver is the stand-in with these faults (the words of its
/// variable `FAKE_CUDA`).
fn with_driver(faults: &str, body: fn()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let program = std::env::current_exe().unwrap();
    let libraries = tempfile::tempdir().unwrap();
    for (file, soname) in [
        ("libgpu_leak_fake_cuda.so", "libcuda.so.1"),
        ("libgpu_leak_fake_cupti.so", "libcupti.so.13"),
    ] {
        let file = program.with_file_name(file);
        symlink(file, libraries.path().join(soname)).unwrap();
    }
    // libtest names a test's thread after it.
    let name = std::thread::current().name().unwrap().to_owned();
    let output = Command::new(&program)
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .env("FAKE_CUDA", faults)
        .env("FAKE_CUDA_DEVICES", "2")
        .env("LD_LIBRARY_PATH", libraries.path())
        .env("GPU_LEAK_CHECK_CUPTI", libraries.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Calls a function of the stand-in: `cuda!(cuMemFree_v2(pointer => u64))`.
macro_rules! cuda {
    ($name:ident($($argument:expr => $type:ty),*)) => {{
        let library = Library::open(Path::new("libcuda.so.1")).unwrap();
        let name = CString::new(stringify!($name)).unwrap();
        // SAFETY: the tests below state each function's documented signature, and pass it places
        // of theirs and handles it gave them.
        unsafe {
            let function: unsafe extern "C" fn($($type),*) -> u32 =
                library.function(&name).expect(stringify!($name));
            function($($argument),*)
        }
    }};
}

/// The answer of a call whose first parameter is the place for it.
macro_rules! made {
    ($name:ident($($argument:expr => $type:ty),*)) => {{
        let mut answer = 0_u64;
        let error = cuda!($name(&raw mut answer => *mut u64 $(, $argument => $type)*));
        assert_eq!(error, 0, stringify!($name));
        answer
    }};
}

/// Starts watching, then makes the first device's primary context current.
fn watched_context() {
    start().unwrap();
    assert_eq!(cuda!(cuInit(0 => u32)), 0);
    let context = made!(cuDevicePrimaryCtxRetain(0 => i32));
    assert_eq!(cuda!(cuCtxSetCurrent(context => u64)), 0);
}

fn allocate(bytes: usize) -> u64 {
    made!(cuMemAlloc_v2(bytes => usize))
}

fn free(pointer: u64) -> u32 {
    cuda!(cuMemFree_v2(pointer => u64))
}

fn stream() -> u64 {
    made!(cuStreamCreate(1 => u32))
}

fn live() -> Vec<Record> {
    ledger::live().select(|_| true)
}

/// The kind, place and bytes of what is live.
fn summary() -> Vec<(Kind, Place, u64)> {
    let facts = |record: Record| (record.made.kind, record.made.place, record.made.bytes);
    live().into_iter().map(facts).collect()
}

fn anomalies() -> Vec<Anomaly> {
    ledger::live().anomalies_since(ledger::Mark::default())
}

#[test]
fn every_way_of_taking_memory_is_seen_with_its_bytes_and_its_place() {
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
        assert_eq!(ledger::live().unknown_releases(), 0);
        assert_eq!(start().unwrap().heartbeat(), Ok(()));
    });
}

#[test]
fn code_and_graphs_are_seen() {
    with_driver("", || {
        watched_context();
        let module = made!(cuModuleLoadData(c"image".as_ptr() => *const i8));
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
            gpu_leak_check_threads::set_token(7);
            assert_eq!(cuda!(cuCtxSetCurrent(context => u64)), 0);
            the_line_that_takes_it()
        });
        loader.unwrap().join().unwrap();
        let caller = live()[0].made.caller;
        assert_eq!(caller.scope, ledger::ScopeId(7));
        assert_eq!(thread_name(caller.thread), "data-loader");
        let mut names = Vec::new();
        for frame in ledger::live().stacks().frames(caller.stack) {
            backtrace::resolve(*frame as *mut _, |symbol| {
                names.extend(symbol.name().map(|name| name.to_string()));
            });
        }
        let line = |name: &String| name.contains("the_line_that_takes_it");
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
        let [
            Anomaly::FailedRelease {
                error: 999, caller, ..
            },
        ] = failed[..]
        else {
            panic!("{failed:?}");
        };
        assert!(
            !ledger::live().stacks().frames(caller.stack).is_empty(),
            "where it failed is what a report must say"
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
        assert_eq!(ledger::live().unknown_releases(), 0);
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
            cuda!(fake_cuda_wait_held(c"cuMemFree_v2".as_ptr() => *const i8));
            let new = allocate(64);
            assert_eq!(new, old, "the stand-in gives an address out again at once");
            cuda!(fake_cuda_release(c"cuMemFree_v2".as_ptr() => *const i8));
            assert_eq!(freeing.join().unwrap(), 0);
        });
        assert_eq!(summary(), [(Kind::Linear, Place::cuda(0), 64)]);
        assert_eq!(anomalies(), []);
    });
}

#[test]
fn what_a_capture_takes_and_frees_is_the_graph_s() {
    with_driver("", || {
        watched_context();
        let stream = stream();
        assert_eq!(cuda!(cuStreamBeginCapture_v2(stream => u64, 0 => u32)), 0);
        let pointer = made!(cuMemAllocAsync(64 => usize, stream => u64));
        assert_eq!(cuda!(cuMemFreeAsync(pointer => u64, stream => u64)), 0);
        assert_eq!(
            quiesce::synchronise(|_| true),
            [],
            "and the capture goes on"
        );
        assert!(!pools::empty(&pools::readings()));
        let mut graph = 0_u64;
        let error = cuda!(cuStreamEndCapture(stream => u64, &raw mut graph => *mut u64));
        assert_eq!(error, 0);
        let kinds: Vec<_> = live().iter().map(|record| record.made.kind).collect();
        assert_eq!(kinds, [Kind::Stream, Kind::GraphHandle]);
        assert_eq!(ledger::live().unknown_releases(), 0);
        assert!(pools::empty(&pools::readings()));
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

#[test]
fn a_created_context_is_a_handle_and_takes_its_own_with_it() {
    with_driver("", || {
        watched_context();
        let outside = allocate(16);
        let context = made!(cuCtxCreate_v4(0 => u64, 0 => u32, 1 => i32));
        stream();
        let survivor = made!(cuMemAllocAsync(400 => usize, 0 => u64));
        let second = Place::cuda(1);
        assert_eq!(
            summary(),
            [
                (Kind::Linear, Place::cuda(0), 16),
                (Kind::Context, second, 0),
                (Kind::Stream, second, 0),
                (Kind::StreamOrdered, second, 400),
            ]
        );
        let places: Vec<_> = memory::readings().iter().map(|read| read.place).collect();
        assert_eq!(places, [Place::cuda(0), second]);
        assert_eq!(cuda!(cuCtxDestroy_v2(context => u64)), 0);
        assert_eq!(
            summary(),
            [
                (Kind::Linear, Place::cuda(0), 16),
                (Kind::StreamOrdered, second, 400),
            ]
        );
        let _ = (outside, survivor);
        assert_eq!(ledger::live().contexts().len(), 1);
    });
}

#[test]
fn a_device_reset_ends_the_primary_context_and_the_next_is_another() {
    with_driver("", || {
        watched_context();
        ledger::live().open_scope(ledger::ScopeId(1));
        gpu_leak_check_threads::set_token(1);
        allocate(64);
        let before = ledger::live().contexts()[0];
        assert_eq!(before.place, Place::cuda(0));
        assert_eq!(cuda!(cuDevicePrimaryCtxReset_v2(0 => i32)), 0);
        assert_eq!(summary(), []);
        assert_eq!(ledger::live().contexts(), []);
        assert!(matches!(
            anomalies()[..],
            [Anomaly::EndedWithContext {
                cause: ContextEnd::Reset,
                ..
            }]
        ));
        let context = made!(cuDevicePrimaryCtxRetain(0 => i32));
        assert_eq!(cuda!(cuCtxSetCurrent(context => u64)), 0);
        allocate(64);
        let after = ledger::live().contexts()[0];
        assert_ne!(after.uid, before.uid);
        assert_eq!(after.place, Place::cuda(0));
    });
}

#[test]
fn only_the_last_release_ends_the_primary_context() {
    with_driver("", || {
        watched_context();
        made!(cuDevicePrimaryCtxRetain(0 => i32));
        allocate(64);
        assert_eq!(cuda!(cuDevicePrimaryCtxRelease_v2(0 => i32)), 0);
        assert_eq!(live().len(), 1);
        assert_eq!(cuda!(cuDevicePrimaryCtxRelease_v2(0 => i32)), 0);
        assert_eq!(live().len(), 0);
        assert_eq!(ledger::live().contexts(), []);
    });
}

#[test]
fn a_context_from_before_the_harness_is_asked_for_its_device() {
    with_driver("", || {
        assert_eq!(cuda!(cuInit(0 => u32)), 0);
        made!(cuCtxCreate_v4(0 => u64, 0 => u32, 1 => i32));
        let old = allocate(64);
        start().unwrap();
        assert_eq!(free(old), 0);
        assert_eq!(ledger::live().unknown_releases(), 1);
        allocate(32);
        assert_eq!(summary(), [(Kind::Linear, Place::cuda(1), 32)]);
    });
}

#[test]
fn pools_are_read_and_emptied() {
    with_driver("", || {
        watched_context();
        assert_eq!(contexts::devices_in_use(), [0]);
        let ordered = made!(cuMemAllocAsync(400 => usize, 0 => u64));
        let properties: [u64; 11] = [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let pool = made!(cuMemPoolCreate(properties.as_ptr() => *const u64));
        let mut in_pool = 0_u64;
        let error = cuda!(cuMemAllocFromPoolAsync(
            &raw mut in_pool => *mut u64, 1000 => usize, pool => u64, 0 => u64));
        assert_eq!(error, 0);
        let readings = pools::readings();
        let names: Vec<_> = readings.iter().map(|read| read.pool.to_string()).collect();
        let explicit = format!("pool {pool:#x}");
        assert_eq!(names, ["pool 0", &explicit, "graph pool"]);
        for reading in &readings[..2] {
            assert_eq!(reading.place, Place::cuda(0));
            assert_eq!(reading.reserved, 32 << 20);
            assert!((400..=1024).contains(&reading.allocated), "{reading:?}");
        }
        assert_eq!(cuda!(cuMemFreeAsync(ordered => u64, 0 => u64)), 0);
        assert_eq!(cuda!(cuMemFreeAsync(in_pool => u64, 0 => u64)), 0);
        assert_eq!(quiesce::synchronise(|_| false), []);
        assert!(pools::empty(&readings));
        assert!(
            pools::readings()
                .iter()
                .all(|read| (read.allocated, read.reserved) == (0, 0))
        );
        assert_eq!(cuda!(cuMemPoolDestroy(pool => u64)), 0);
        assert_eq!(pools::readings().len(), 2);
        assert_eq!(summary(), []);
    });
}

#[test]
fn a_poisoned_context_is_told_with_its_error() {
    with_driver("poison:cuMemAlloc_v2@2", || {
        watched_context();
        allocate(64);
        assert_eq!(quiesce::synchronise(|_| true), []);
        let mut pointer = 0_u64;
        cuda!(cuMemAlloc_v2(&raw mut pointer => *mut u64, 64 => usize));
        let poisoned = quiesce::Poisoned {
            place: Place::cuda(0),
            error: 700,
        };
        assert_eq!(quiesce::synchronise(|_| true), [poisoned]);
    });
}

#[test]
fn the_harness_makes_no_context_and_sees_none_of_its_own_calls() {
    with_driver("", || {
        start().unwrap();
        assert!(!contexts::driver_in_use());
        assert_eq!(cuda!(cuInit(0 => u32)), 0);
        assert_eq!(quiesce::synchronise(|_| true), []);
        assert_eq!(pools::readings(), []);
        assert_eq!(memory::readings(), []);
        assert_eq!(cuda!(fake_cuda_contexts_made()), 0);
        made!(cuDevicePrimaryCtxRetain(1 => i32));
        assert!(contexts::driver_in_use());
        assert_eq!(contexts::devices_in_use(), [1]);
        let name = contexts::device_name(Place::cuda(1)).unwrap();
        assert!(name.uuid.unwrap().starts_with("GPU-"));
        assert_eq!(summary(), []);
    });
}

#[test]
fn a_forked_child_is_left_alone() {
    with_driver("", || {
        watched_context();
        let pointer = allocate(64);
        // SAFETY: the child only calls the stand-in and `_exit`; this process has one thread at
        // work.
        let child = unsafe { libc::fork() };
        if child == 0 {
            free(pointer);
            let quiet = exit::forked() && live().len() == 1 && pools::readings().is_empty();
            // SAFETY: ends the child at once, without handlers.
            unsafe { libc::_exit(if quiet { 7 } else { 8 }) };
        }
        let mut status = 0;
        // SAFETY: `child` is a child of this process and `status` is writable.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(libc::WEXITSTATUS(status), 7);
        assert_eq!(start().unwrap().heartbeat(), Ok(()));
    });
}

#[test]
fn another_tool_s_subscription_is_told_with_its_name() {
    with_driver("cupti:taken=CUPTI for nsys", || {
        let why = start().unwrap_err();
        let by = Some("CUPTI for nsys".to_owned());
        assert!(
            matches!(why, Unavailable::Taken { by: holder } if *holder == by),
            "{why:?}"
        );
        assert_eq!(why.code(), "tracer-taken");
        assert!(!contexts::driver_in_use());
    });
}

#[test]
fn a_driver_too_old_for_cupti_is_told() {
    with_driver("cupti:too_old,version:12040", || {
        let why = start().unwrap_err();
        assert_eq!(why.code(), "cupti-too-old");
        assert!(why.what().contains("supports CUDA 12.4"), "{why}");
    });
}

#[test]
fn a_cupti_too_old_for_the_harness_is_told() {
    with_driver("cupti:version=17", || {
        let why = start().unwrap_err();
        assert_eq!(why.code(), "cupti-too-old");
        assert!(why.what().contains("11.6"), "{why}");
    });
}

#[test]
fn an_older_cupti_works_without_the_calls_it_does_not_know() {
    with_driver("cupti:version=18", || {
        watched_context();
        let tracer = start().unwrap();
        assert!(tracer.unseen().contains(&"cuLibraryLoadData"));
        assert!(!tracer.unseen().contains(&"cuMemAllocFromPoolAsync_ptsz"));
        assert_eq!(tracer.version().to_string(), "11.8");
        assert!(tracer.path().ends_with("libcupti.so.13"));
        allocate(64);
        assert_eq!(live().len(), 1);
    });
}

#[test]
fn each_generation_of_subscriptions_is_taken() {
    for version in [28, 130_000, 130_200, 130_301, 130_500] {
        with_driver(&format!("cupti:version={version}"), || {
            watched_context();
            let before = live().len();
            allocate(64);
            assert_eq!(live().len(), before + 1);
        });
    }
}

#[test]
fn a_fatal_error_of_cupti_ends_the_trust_in_it() {
    with_driver("cupti:fatal@6", || {
        watched_context();
        for _ in 0..8 {
            free(allocate(64));
        }
        let loss = SourceLoss::CuptiFatal;
        assert_eq!(start().unwrap().heartbeat(), Err(loss));
        assert_eq!(ledger::live().lost(), Some(loss));
    });
}

#[test]
fn a_subscription_taken_down_silently_is_noticed_by_the_heartbeat() {
    with_driver("cupti:lost@6", || {
        watched_context();
        for _ in 0..8 {
            free(allocate(64));
        }
        let loss = SourceLoss::SubscriptionGone;
        assert_eq!(start().unwrap().heartbeat(), Err(loss));
        assert_eq!(ledger::live().lost(), Some(loss));
    });
}
