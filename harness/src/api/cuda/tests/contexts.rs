//! Tests contexts that are created and ended, and the resources that end with them.

use super::{allocate, anomalies, live, stream, summary, watched_context, with_driver};
use crate::device::contexts;
use crate::ledger::event::ContextEnd;
use crate::ledger::{self, Anomaly, Kind, Place};

#[test]
fn a_created_context_is_a_handle_and_takes_its_objects_with_it() {
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
        assert_eq!(contexts::devices_in_use(), [0, 1]);
        assert_eq!(cuda!(cuCtxDestroy_v2(context => u64)), 0);
        assert_eq!(
            summary(),
            [
                (Kind::Linear, Place::cuda(0), 16),
                (Kind::StreamOrdered, second, 400),
            ]
        );
        let _ = (outside, survivor);
        assert_eq!(ledger::live().contexts.all().len(), 1);
    });
}

#[test]
fn a_device_reset_ends_the_primary_context_and_the_next_is_another() {
    with_driver("", || {
        watched_context();
        // No check opens a scope with an ID as large as this.
        let scope = u32::MAX / 2;
        ledger::live().open_scope(ledger::ScopeId(scope));
        gpu_leak_interpose::set_token(scope.into());
        allocate(64);
        let before = ledger::live().contexts.all()[0];
        assert_eq!(before.place, Place::cuda(0));
        assert_eq!(cuda!(cuDevicePrimaryCtxReset_v2(0 => i32)), 0);
        assert_eq!(summary(), []);
        assert_eq!(ledger::live().contexts.all(), []);
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
        let after = ledger::live().contexts.all()[0];
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
        assert_eq!(ledger::live().contexts.all(), []);
    });
}

#[test]
fn an_attached_context_is_one_until_the_last_detach() {
    with_driver("", || {
        assert_eq!(cuda!(cuInit(0 => u32)), 0);
        let context = made!(cuCtxCreate_v2(0 => u32, 0 => i32));
        assert_eq!(made!(cuCtxAttach(0 => u32)), context);
        allocate(64);
        assert_eq!(cuda!(cuCtxDetach(context => u64)), 0);
        assert_eq!(live().len(), 2, "the context and its memory");
        assert_eq!(cuda!(cuCtxDetach(context => u64)), 0);
        assert_eq!(summary(), []);
        assert_eq!(anomalies(), []);
        assert_eq!(ledger::live().unknown_frees(), 0);
    });
}

#[test]
fn detaching_a_primary_context_does_not_end_it() {
    with_driver("", || {
        watched_context();
        let pointer = allocate(64);
        let context = made!(cuCtxAttach(0 => u32));
        assert_eq!(cuda!(cuCtxDetach(context => u64)), 0);
        assert_eq!(live().len(), 1);
        assert_eq!(cuda!(cuMemFree_v2(pointer => u64)), 0);
        assert_eq!(anomalies(), []);
        assert_eq!(ledger::live().unknown_frees(), 0);
    });
}

fn green(device: i32) -> u64 {
    let mut resource = [0_u64; 20];
    let at = (&raw mut resource).expose_provenance() as u64;
    let error = cuda!(cuDeviceGetDevResource(device => i32, at => u64, 1 => u32));
    assert_eq!(error, 0);
    let description = made!(cuDevResourceGenerateDesc(at => u64, 1 => u32));
    made!(cuGreenCtxCreate(description => u64, device => i32, 1 => u32))
}

/// Creates a stream of a green context, and makes the context that the driver returns for this
/// stream current. Returns the stream and the context.
fn enter_context_of_a_stream(green: u64) -> (u64, u64) {
    let stream = made!(cuGreenCtxStreamCreate(green => u64, 1 => u32, 0 => i32));
    let mut context = 0_u64;
    let error = cuda!(cuStreamGetCtx(stream => u64, &raw mut context => *mut u64));
    assert_eq!(error, 0);
    assert_eq!(cuda!(cuCtxSetCurrent(context => u64)), 0);
    (stream, context)
}

/// The program retains the primary context after creating the green one, and never makes the
/// primary context current.
#[test]
fn memory_of_a_green_context_ends_with_a_primary_context_that_was_never_current() {
    with_driver("", || {
        watched_context();
        let green = green(1);
        let current = made!(cuCtxFromGreenCtx(green => u64));
        assert_eq!(cuda!(cuCtxSetCurrent(current => u64)), 0);
        allocate(64);
        made!(cuDevicePrimaryCtxRetain(1 => i32));
        assert_eq!(cuda!(cuGreenCtxDestroy(green => u64)), 0);
        assert_eq!(summary(), [(Kind::Linear, Place::cuda(1), 64)]);
        assert_eq!(cuda!(cuDevicePrimaryCtxRelease_v2(1 => i32)), 0);
        assert_eq!(summary(), []);
    });
}

/// The program gets the context of a stream, and later the same context from the green context.
#[test]
fn memory_of_a_green_context_ends_with_the_primary_context_however_it_was_made_current() {
    with_driver("", || {
        watched_context();
        let green = green(1);
        let (stream, context) = enter_context_of_a_stream(green);
        allocate(64);
        assert_eq!(made!(cuCtxFromGreenCtx(green => u64)), context);
        allocate(64);
        assert_eq!(cuda!(cuStreamDestroy_v2(stream => u64)), 0);
        assert_eq!(cuda!(cuGreenCtxDestroy(green => u64)), 0);
        assert_eq!(summary(), []);
    });
}

/// The current context does not determine where the stream and its memory are.
#[test]
fn a_stream_of_a_green_context_is_on_its_device() {
    with_driver("", || {
        watched_context();
        let green = green(1);
        let stream = made!(cuGreenCtxStreamCreate(green => u64, 1 => u32, 0 => i32));
        made!(cuMemAllocAsync(400 => usize, stream => u64));
        let places = summary().into_iter().map(|(_, place, _)| place);
        assert_eq!(places.collect::<Vec<_>>(), [Place::cuda(1); 3]);
    });
}

fn texture() -> u64 {
    let description = [64_u64, 32, 0, 0x20 | 1 << 32, 2];
    let array = made!(cuArray3DCreate_v2(description.as_ptr() => *const u64));
    let mut resource = [0_u64; 18];
    resource[1] = array;
    let sampling = [0_u64; 16];
    made!(cuTexObjectCreate(
        resource.as_ptr() => *const u64, sampling.as_ptr() => *const u64, 0 => u64))
}

/// Observed on an H200: a context that the program creates numbers its own textures, whereas a
/// green context shares the numbers of its primary context.
#[test]
fn a_green_context_and_its_primary_context_number_their_textures_together() {
    with_driver("", || {
        watched_context();
        let primary = made!(cuCtxGetCurrent());
        let current = made!(cuCtxFromGreenCtx(green(0) => u64));
        assert_eq!(cuda!(cuCtxSetCurrent(current => u64)), 0);
        let of_green = texture();
        let created = made!(cuCtxCreate_v2(0 => u32, 0 => i32));
        assert_eq!(texture(), of_green);
        assert_eq!(cuda!(cuCtxSetCurrent(primary => u64)), 0);
        assert_eq!(cuda!(cuTexObjectDestroy(of_green => u64)), 0);
        assert_eq!(cuda!(cuCtxDestroy_v2(created => u64)), 0);
        let kinds: Vec<_> = live().iter().map(|record| record.made.kind).collect();
        assert_eq!(kinds, [Kind::GreenContext, Kind::Array]);
    });
}

/// The current context is the green one, although the program never converted it.
#[test]
fn a_stream_created_in_the_context_of_a_stream_of_a_green_context_outlives_it() {
    with_driver("", || {
        watched_context();
        made!(cuDevicePrimaryCtxRetain(1 => i32));
        let green = green(1);
        enter_context_of_a_stream(green);
        stream();
        assert_eq!(cuda!(cuGreenCtxDestroy(green => u64)), 0);
        assert_eq!(cuda!(cuDevicePrimaryCtxRelease_v2(1 => i32)), 0);
        assert_eq!(summary(), [(Kind::Stream, Place::cuda(1), 0); 2]);
    });
}
