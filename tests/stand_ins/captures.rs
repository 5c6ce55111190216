//! Captures of several streams, captures into an existing graph, and captures that the program
//! never ends.

#![expect(unsafe_code, reason = "calls the driver's C interface")]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys::{self, CUresult};
use gpu_leak_tests::fake::Fake;

use super::calls::{answer, context, ok};
use super::graphs::{graph, instantiate, launch};

#[test]
fn forked_streams_capture_into_one_graph() {
    Fake::new().here(|control| {
        context();
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let [origin, fork] = [(); 2].map(|()| answer(|out| sys::cuStreamCreate(out, 1)));
            let event = answer(|out| sys::cuEventCreate(out, 2));
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
            ok(sys::cuStreamBeginCapture_v2(origin, mode));
            ok(sys::cuEventRecord(event, origin));
            ok(sys::cuStreamWaitEvent(fork, event, 0));
            let address: u64 = answer(|out| sys::cuMemAllocAsync(out, 100, fork));
            ok(sys::cuEventRecord(event, fork));
            ok(sys::cuStreamWaitEvent(origin, event, 0));
            ok(sys::cuMemFreeAsync(address, origin));
            let graph = answer(|out| sys::cuStreamEndCapture(origin, out));
            let exec = instantiate(graph, 0);
            ok(launch(exec));
            assert_eq!(control.live("graph-memory"), (0, 0));
            assert_eq!(control.live("stream-ordered"), (0, 0));
        }
    });
}

#[test]
fn an_unjoined_fork_leaves_no_graph() {
    Fake::new().here(|control| {
        context();
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let [origin, fork] = [(); 2].map(|()| answer(|out| sys::cuStreamCreate(out, 1)));
            let event = answer(|out| sys::cuEventCreate(out, 2));
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
            ok(sys::cuStreamBeginCapture_v2(origin, mode));
            ok(sys::cuEventRecord(event, origin));
            ok(sys::cuStreamWaitEvent(fork, event, 0));
            let mut graph = ptr::null_mut();
            assert_eq!(
                sys::cuStreamEndCapture(origin, &raw mut graph),
                CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED
            );
            assert!(graph.is_null());
        }
        assert_eq!(control.live("graph").0, 0);
    });
}

#[test]
fn a_capture_into_a_graph_answers_with_that_graph() {
    Fake::new().here(|control| {
        context();
        let graph = graph();
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let stream = answer(|out| sys::cuStreamCreate(out, 1));
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
            let (none, edges) = (ptr::null(), ptr::null());
            ok(sys::cuStreamBeginCaptureToGraph(
                stream, graph, none, edges, 0, mode,
            ));
            let _: u64 = answer(|out| sys::cuMemAllocAsync(out, 100, stream));
            assert_eq!(answer(|out| sys::cuStreamEndCapture(stream, out)), graph);
        }
        assert_eq!(control.live("graph").0, 1);
        let exec = instantiate(graph, 0);
        ok(launch(exec));
        assert_eq!(control.live("graph-memory"), (1, 100));
    });
}

#[test]
fn a_destroyed_stream_ends_its_capture() {
    Fake::new().here(|control| {
        context();
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let stream = answer(|out| sys::cuStreamCreate(out, 1));
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
            ok(sys::cuStreamBeginCapture_v2(stream, mode));
            ok(sys::cuStreamDestroy_v2(stream));
            let _: u64 = answer(|out| sys::cuMemAlloc_v2(out, 1));
        }
        assert_eq!(control.live("graph").0, 0);
    });
}

static CALLED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn count(_: *mut c_void) {
    CALLED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_captured_function_runs_with_each_launch() {
    Fake::new().here(|_| {
        context();
        // SAFETY: the out pointers are valid, the handles are live and the function is this
        // program's, here and below.
        unsafe {
            let stream = answer(|out| sys::cuStreamCreate(out, 1));
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
            ok(sys::cuStreamBeginCapture_v2(stream, mode));
            ok(sys::cuLaunchHostFunc(stream, Some(count), ptr::null_mut()));
            let graph = answer(|out| sys::cuStreamEndCapture(stream, out));
            let exec = instantiate(graph, 0);
            assert_eq!(CALLED.load(Ordering::Relaxed), 0);
            ok(launch(exec));
            ok(launch(exec));
        }
        assert_eq!(CALLED.load(Ordering::Relaxed), 2);
    });
}
