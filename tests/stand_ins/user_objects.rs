//! A user object lives while a caller, a graph, a clone or an executable graph has a reference to
//! it.

#![expect(unsafe_code, reason = "calls the driver's C interface")]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys::{self, CUresult};
use gpu_leak_tests::fake::{Control, Fake};

use super::calls::{answer, context, ok, refusal};

const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;
const MOVE: u32 = 1;

static ENDED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn end(data: *mut c_void) {
    assert_eq!(data as usize, 0xDA7A);
    ENDED.fetch_add(1, Ordering::Relaxed);
}

fn create(references: u32) -> sys::CUuserObject {
    let data = ptr::without_provenance_mut(0xDA7A);
    // SAFETY: the out pointer is valid, and the function is this program's.
    answer(|out| unsafe { sys::cuUserObjectCreate(out, data, Some(end), references, 1) })
}

/// Returns the number of live user objects, and the number of those that have ended.
fn counts(control: &Control) -> (u64, u32) {
    (control.live("user-object").0, ENDED.load(Ordering::Relaxed))
}

#[test]
fn the_destructor_runs_with_the_last_release() {
    Fake::new().here(|control| {
        context();
        let object = create(2);
        // SAFETY: the handles are live, except for one, which the driver checks.
        unsafe {
            ok(sys::cuUserObjectRetain(object, 1));
            ok(sys::cuUserObjectRelease(object, 2));
            assert_eq!(counts(control), (1, 0));
            assert_eq!(
                sys::cuUserObjectRelease(object, 2),
                INVALID,
                "more than there are"
            );
            ok(sys::cuUserObjectRelease(object, 1));
            assert_eq!(counts(control), (0, 1));
            assert_eq!(sys::cuUserObjectRelease(object, 1), INVALID);
        }
    });
}

#[test]
fn a_user_object_without_a_destructor_or_references_is_refused() {
    Fake::new().here(|control| {
        context();
        let data = ptr::null_mut();
        // SAFETY: the out pointers are valid.
        unsafe {
            for code in [
                refusal(|out| sys::cuUserObjectCreate(out, data, None, 1, 1)),
                refusal(|out| sys::cuUserObjectCreate(out, data, Some(end), 0, 1)),
                refusal(|out| sys::cuUserObjectCreate(out, data, Some(end), 1, 0)),
            ] {
                assert_eq!(code, INVALID);
            }
        }
        assert_eq!(counts(control), (0, 0));
    });
}

#[test]
fn a_graph_its_clone_and_its_exec_hold_references_of_their_own() {
    Fake::new().here(|control| {
        context();
        let object = create(1);
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let graph = answer(|out| sys::cuGraphCreate(out, 0));
            ok(sys::cuGraphRetainUserObject(graph, object, 2, 0));
            ok(sys::cuUserObjectRelease(object, 1));
            let clone = answer(|out| sys::cuGraphClone(out, graph));
            let exec = answer(|out| sys::cuGraphInstantiateWithFlags(out, clone, 0));
            ok(sys::cuGraphReleaseUserObject(graph, object, 2));
            assert_eq!(sys::cuGraphReleaseUserObject(graph, object, 1), INVALID);
            ok(sys::cuGraphDestroy(graph));
            ok(sys::cuGraphDestroy(clone));
            assert_eq!(counts(control), (1, 0));
            ok(sys::cuGraphExecDestroy(exec));
        }
        assert_eq!(counts(control), (0, 1));
    });
}

#[test]
fn a_moved_reference_is_the_graph_s_alone() {
    Fake::new().here(|control| {
        context();
        let object = create(1);
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let graph = answer(|out| sys::cuGraphCreate(out, 0));
            ok(sys::cuGraphRetainUserObject(graph, object, 1, MOVE));
            assert_eq!(sys::cuUserObjectRelease(object, 1), INVALID);
            assert_eq!(
                sys::cuGraphRetainUserObject(graph, object, 1, MOVE),
                INVALID
            );
            assert_eq!(counts(control), (1, 0));
            ok(sys::cuGraphDestroy(graph));
        }
        assert_eq!(counts(control), (0, 1));
    });
}

#[test]
fn a_capture_that_nobody_can_end_gives_up_its_graph_s_references() {
    Fake::new().here(|control| {
        context();
        let object = create(1);
        // SAFETY: the out pointers are valid and the handles are live, here and below.
        unsafe {
            let stream = answer(|out| sys::cuStreamCreate(out, 1));
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
            ok(sys::cuStreamBeginCapture_v2(stream, mode));
            let (mut graph, mut status) = (
                ptr::null_mut(),
                sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE,
            );
            ok(sys::cuStreamGetCaptureInfo_v3(
                stream,
                &raw mut status,
                ptr::null_mut(),
                &raw mut graph,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
            ));
            ok(sys::cuGraphRetainUserObject(graph, object, 1, MOVE));
            ok(sys::cuStreamDestroy_v2(stream));
        }
        assert_eq!(counts(control), (0, 1));
    });
}
