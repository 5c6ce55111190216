mod graphs;
mod numbered;

use std::ptr;

use super::{CallbackData, Ledger, ResourceData, ffi};
use crate::ledger::event::Space;
use crate::ledger::{Anomaly, Kind, Mark, Place};

const ALLOCATE: u32 = 243;
const FREE: u32 = 245;
const DESTROY_CONTEXT: u32 = 322;
const CREATE_STREAM: u32 = 124;
const CREATE_GREEN: u32 = 743;
const DESTROY_GREEN: u32 = 744;
const CONVERT_GREEN: u32 = 753;

/// The context current to the calling thread: its handle and its number.
type Current = (u64, u32);

const NO_CONTEXT: Current = (0, 0);

/// One side of a call, as CUPTI tells it.
fn tell<T>(ledger: &Ledger, id: u32, site: u32, params: &T, slot: &mut u64, result: u32) {
    tell_in(NO_CONTEXT, ledger, id, site, params, slot, result);
}

fn tell_in<T>(
    current: Current,
    ledger: &Ledger,
    id: u32,
    site: u32,
    params: &T,
    slot: &mut u64,
    result: u32,
) {
    let data = CallbackData {
        site,
        function_name: ptr::null(),
        function_params: ptr::from_ref(params).cast(),
        function_return_value: &raw const result,
        symbol_name: ptr::dangling(),
        context: ptr::without_provenance(current.0 as usize),
        context_uid: current.1,
        correlation_data: slot,
        correlation_id: 0,
    };
    // SAFETY: each test passes the block of the call it names.
    unsafe { super::driver_call(ledger, id, &data) };
}

/// A whole call, with what happens inside it.
fn call<T>(ledger: &Ledger, id: u32, params: &T, result: u32, inside: impl FnOnce()) {
    let mut slot = 0;
    tell(ledger, id, ffi::SITE_ENTER, params, &mut slot, 0xcdcd);
    inside();
    tell(ledger, id, ffi::SITE_EXIT, params, &mut slot, result);
}

/// A call without events inside it, in a context.
fn call_in<T>(current: Current, ledger: &Ledger, id: u32, params: &T) {
    let mut slot = 0;
    for site in [ffi::SITE_ENTER, ffi::SITE_EXIT] {
        tell_in(current, ledger, id, site, params, &mut slot, 0);
    }
}

fn tell_resource(ledger: &Ledger, id: u32, context: u64) {
    let data = ResourceData {
        context: ptr::without_provenance(context as usize),
        resource_handle: ptr::null(),
        resource_descriptor: ptr::null(),
    };
    // SAFETY: the data is that of the ids about contexts.
    unsafe { super::resource(ledger, id, &raw const data) };
}

#[repr(C)]
struct Allocate(*const u64, u64, u64);

fn kinds(ledger: &Ledger) -> Vec<Kind> {
    let records = ledger.select(|_| true);
    records.iter().map(|record| record.made.kind).collect()
}

fn anomalies(ledger: &Ledger) -> Vec<Anomaly> {
    ledger.anomalies_since(Mark::default())
}

#[test]
fn a_free_that_began_before_the_harness_listened_changes_nothing() {
    let ledger = Ledger::new();
    let pointer = 0x1000_u64;
    let params = Allocate(&raw const pointer, 64, 0);
    call(&ledger, ALLOCATE, &params, 0, || ());
    for garbage in [0, 1, u64::MAX] {
        let mut slot = garbage;
        tell(&ledger, FREE, ffi::SITE_EXIT, &pointer, &mut slot, 0);
    }
    assert_eq!(kinds(&ledger), [Kind::Linear]);
    assert_eq!(ledger.unknown_releases(), 0);
}

#[test]
fn the_end_of_a_free_of_null_does_not_take_an_old_ticket() {
    let ledger = Ledger::new();
    let mut slot = super::IN_SLOT | 1;
    let null = 0_u64;
    tell(&ledger, FREE, ffi::SITE_ENTER, &null, &mut slot, 0);
    assert_eq!(slot, 0);
}

#[test]
fn a_context_whose_destruction_fails_stays() {
    let ledger = Ledger::new();
    let context = 0xc07e_0001_u64;
    call(&ledger, DESTROY_CONTEXT, &context, 201, || ());
    assert!(matches!(
        anomalies(&ledger)[..],
        [Anomaly::FailedRelease { error: 201, .. }]
    ));
    // No call is in progress: the driver takes itself down.
    tell_resource(&ledger, ffi::CONTEXT_DESTROY_STARTING, context);
    assert_eq!(anomalies(&ledger).len(), 1);
}

#[test]
fn what_is_made_in_a_green_context_outlives_it_but_for_its_streams() {
    #[repr(C)]
    struct Create(*const u64, u64, u32, u32);
    #[repr(C)]
    struct Convert(*const u64, u64);
    // CUPTI need not tell of the end of the context that was converted.
    for (green, context, uid, is_told) in [
        (0x96ee_0001_u64, 0xc07e_0011_u64, 0x7e01, false),
        (0x96ee_0002, 0xc07e_0012, 0x7e02, true),
    ] {
        let ledger = Ledger::new();
        let create = Create(&raw const green, 0xde5c, 0, 1);
        call(&ledger, CREATE_GREEN, &create, 0, || ());
        let convert = Convert(&raw const context, green);
        call(&ledger, CONVERT_GREEN, &convert, 0, || ());
        let (pointer, stream) = (0x3000_u64, 0x4000_u64);
        let params = Allocate(&raw const pointer, 64, 0);
        call_in((context, uid), &ledger, ALLOCATE, &params);
        let params = Allocate(&raw const stream, 0, 0);
        call_in((context, uid), &ledger, CREATE_STREAM, &params);
        assert_eq!(ledger.contexts().len(), 1);

        call(&ledger, DESTROY_GREEN, &green, 0, || {
            if is_told {
                tell_resource(&ledger, ffi::CONTEXT_DESTROY_STARTING, context);
            }
        });
        assert_eq!(kinds(&ledger), [Kind::Linear], "{is_told}");
        assert_eq!(ledger.contexts(), [], "nobody is to read it any more");
        assert_eq!(anomalies(&ledger), []);
    }
}

const CREATE_PHYSICAL: u32 = 549;
const RELEASE_PHYSICAL: u32 = 550;
const MAP: u32 = 551;
const UNMAP: u32 = 552;
const IMPORT_PHYSICAL: u32 = 555;
const RETAIN_MAPPED: u32 = 565;
const CREATE_MULTICAST: u32 = 706;
const PAGE: u64 = 0x20_0000;

/// `CUmemAllocationProp`
#[repr(C)]
struct AllocationProp(u32, u32, u32, u32, [u64; 2]);

fn create_physical(ledger: &Ledger, handle: u64) {
    let properties = AllocationProp(1, 0, 1, 3, [0; 2]);
    #[repr(C)]
    struct Params(*const u64, u64, *const AllocationProp, u64);
    let params = Params(&raw const handle, PAGE, &raw const properties, 0);
    call(ledger, CREATE_PHYSICAL, &params, 0, || ());
}

fn holds(ledger: &Ledger) -> Vec<(u64, u64)> {
    let holdings = ledger.holdings();
    let records = ledger.select(|_| true);
    let holdings = records.iter().map(|record| holdings[&record.key()]);
    holdings
        .map(|holding| (holding.references, holding.maps))
        .collect()
}

#[test]
fn physical_memory_is_followed_through_handles_and_maps() {
    let ledger = Ledger::new();
    create_physical(&ledger, 0x11);
    let made = ledger.select(|_| true)[0].made;
    assert_eq!((made.key.space, made.bytes), (Space::PhysicalObject, PAGE));
    assert_eq!(made.place, Place::cuda(3), "where its properties say");
    let map = [0x7000_0000, PAGE, 0, 0x11, 0];
    call(&ledger, MAP, &map, 1, || ());
    assert_eq!(holds(&ledger), [(1, 0)], "a map that failed is none");
    call(&ledger, MAP, &map, 0, || ());
    let retained = 0x12_u64;
    #[repr(C)]
    struct Retain(*const u64, u64);
    let retain = Retain(&raw const retained, 0x7000_0000);
    call(&ledger, RETAIN_MAPPED, &retain, 0, || ());
    assert_eq!(holds(&ledger), [(2, 1)]);
    call(&ledger, RELEASE_PHYSICAL, &0x11_u64, 0, || ());
    let during = || assert_eq!(holds(&ledger), [(1, 0)], "unmapped from the beginning on");
    call(&ledger, UNMAP, &[0x7000_0000, PAGE], 1, during);
    assert_eq!(holds(&ledger), [(1, 1)]);
    assert!(matches!(
        anomalies(&ledger)[..],
        [Anomaly::FailedRelease {
            record: Some(_),
            error: 1,
            ..
        }]
    ));
    call(&ledger, UNMAP, &[0x7000_0000, PAGE], 0, || ());
    call(&ledger, RELEASE_PHYSICAL, &0x12_u64, 0, || ());
    assert_eq!(kinds(&ledger), []);
    assert_eq!(ledger.unknown_releases(), 0);
}

#[test]
fn what_is_imported_and_multicast_objects_share_the_space_of_physical_memory() {
    let ledger = Ledger::new();
    let (imported, multicast) = (0x21_u64, 0x22_u64);
    let answer = |handle: &u64| Allocate(&raw const *handle, 0, 0);
    call(&ledger, IMPORT_PHYSICAL, &answer(&imported), 0, || ());
    call(&ledger, CREATE_MULTICAST, &answer(&multicast), 0, || ());
    assert_eq!(kinds(&ledger), [Kind::Imported, Kind::Multicast]);
    for handle in [imported, multicast] {
        call(&ledger, RELEASE_PHYSICAL, &handle, 0, || ());
    }
    assert_eq!(kinds(&ledger), []);
}

#[test]
fn a_pool_that_is_imported_again_is_the_same_pool() {
    let ledger = Ledger::new();
    let pool = 0x5000_u64;
    let answer = &raw const pool;
    call(&ledger, 614, &answer, 0, || ());
    let first = ledger.select(|_| true);
    call(&ledger, 614, &answer, 0, || ());
    assert_eq!(ledger.select(|_| true), first, "its first import's");
    call(&ledger, 608, &pool, 0, || ());
    assert_eq!(kinds(&ledger), []);
    assert_eq!(anomalies(&ledger), []);
}

#[test]
fn the_same_memory_of_another_process_is_opened_and_closed_twice() {
    let ledger = Ledger::new();
    let pointer = 0x3000_u64;
    /// A `CUipcMemHandle` is passed by value.
    #[repr(C)]
    struct Open(*const u64, [u64; 8], u32);
    for id in [567, 329] {
        let open = Open(&raw const pointer, [0; 8], 1);
        call(&ledger, id, &open, 0, || ());
    }
    assert_eq!(kinds(&ledger), [Kind::Imported; 2], "each open call");
    call(&ledger, 330, &pointer, 0, || ());
    assert_eq!(kinds(&ledger), [Kind::Imported]);
    call(&ledger, 330, &pointer, 0, || ());
    assert_eq!(kinds(&ledger), []);
    assert_eq!(anomalies(&ledger), []);
}
