//! Tests of a ledger's readings and of its listeners.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::{FAILED, SCOPE, World, caller, creation};
use crate::ledger::event::{Caller, ContextEnd, ContextUid, Creation, Event, Key, ScopeId, Space};
use crate::ledger::{Anomaly, Kind, Layer, Ledger, Mark, Place, Record, StackId};

const INNER: ScopeId = ScopeId(2);
/// The call site that allocates, and that fails to free.
const LINE: StackId = StackId(7);

fn by(scope: ScopeId) -> Caller {
    Caller {
        stack: LINE,
        ..caller(scope)
    }
}

fn allocate(ledger: &Ledger, address: u64, bytes: u64, caller: Caller) {
    let made = Creation {
        caller,
        ..creation(Kind::Linear, address, bytes)
    };
    ledger.apply(&Event::Created(made));
}

fn free(ledger: &Ledger, key: Key, caller: Caller, error: u32) {
    let ticket = ledger.apply(&Event::FreeBegan { key, caller });
    let ticket = ticket.expect("a release has a ticket");
    ledger.apply(&Event::FreeEnded {
        ticket,
        error,
        stack: LINE,
    });
}

#[test]
fn a_listener_hears_every_event_once_with_the_ledger_s_answer() {
    let ledger = Ledger::new();
    assert!(!ledger.has_listener());
    allocate(&ledger, 0x1000, 8, by(SCOPE));
    let heard: Arc<Mutex<Vec<(usize, bool)>>> = Arc::default();
    let list = Arc::clone(&heard);
    ledger.listen(Box::new(move |ledger, _, ticket| {
        let live = ledger.select(|_| true).len();
        list.lock().unwrap().push((live, ticket.is_some()));
    }));
    assert!(ledger.has_listener());
    // A second listener has no effect.
    ledger.listen(Box::new(|_, _, _| panic!("there is a listener")));
    free(&ledger, super::key(0x1000), by(SCOPE), 0);
    assert_eq!(*heard.lock().unwrap(), [(0, true), (0, false)]);
}

#[test]
fn the_live_pools_are_known() {
    let ledger = Ledger::new();
    let pool = creation(Kind::Pool, 0x1000, 0);
    assert!(ledger.pools().is_empty());
    for _ in 0..2 {
        ledger.apply(&Event::Created(pool));
        let live: Vec<_> = ledger.pools().iter().map(|pool| pool.made).collect();
        assert_eq!(live, [pool]);
        free(&ledger, pool.key, by(SCOPE), 0);
        assert!(ledger.pools().is_empty());
    }
}

#[test]
fn a_part_of_a_scope_begins_with_it_and_counts_for_its_meter() {
    let ledger = Ledger::new();
    allocate(&ledger, 0x1000, 100, by(ScopeId(9)));
    ledger.open_scope(SCOPE);
    ledger.meters().begin(SCOPE, Layer::DRIVER);
    allocate(&ledger, 0x2000, 20, by(SCOPE));
    ledger.open_part(INNER, SCOPE);
    allocate(&ledger, 0x3000, 30, by(INNER));
    // These calls free a record of the outer scope and a record from before both scopes.
    free(&ledger, super::key(0x2000), by(INNER), 0);
    free(&ledger, super::key(0x1000), by(INNER), 0);
    let [used] = &ledger.meters().end(SCOPE)[..] else {
        panic!("one layer at one place");
    };
    assert_eq!((used.made, used.total, used.peak), (2, 50, 50));
    let freed_earlier = ledger.close_scope(INNER);
    assert_eq!((freed_earlier.count, freed_earlier.bytes), (1, 100));
    // A child of a scope that is not open begins when it is opened.
    ledger.open_part(ScopeId(4), ScopeId(5));
    allocate(&ledger, 0x4000, 8, by(ScopeId(6)));
    free(&ledger, super::key(0x4000), by(ScopeId(4)), 0);
    assert_eq!(ledger.close_scope(ScopeId(4)).count, 0);
}

#[test]
fn a_manually_nested_scope_counts_for_the_outer_meter() {
    let ledger = Ledger::new();
    ledger.open_scope(SCOPE);
    ledger.open_scope(INNER);
    ledger.meters().begin(SCOPE, Layer::DRIVER);
    ledger.meters().nest(INNER, SCOPE);
    allocate(&ledger, 0x1000, 8, by(INNER));
    assert_eq!(ledger.meters().end(SCOPE)[0].total, 8);
    assert!(ledger.meters().end(SCOPE).is_empty(), "it has ended");
}

#[test]
fn a_log_includes_earlier_memory_and_ends_on_its_own() {
    let world = World::new();
    allocate(&world.0, 0x1000, 100, by(SCOPE));
    world.0.begin_log(SCOPE);
    allocate(&world.0, 0x2000, 50, by(SCOPE));
    free(&world.0, super::key(0x1000), by(SCOPE), 0);
    let (readings, graphs) = world.0.meters().log(SCOPE);
    assert!(graphs.is_empty());
    let [log] = &readings[..] else {
        panic!("one layer at one place");
    };
    assert_eq!((log.made, log.peak, log.lifetimes.len()), (1, 150, 2));
    let before = log.lifetimes[0];
    assert_eq!(
        (before.bytes, before.allocated, before.freed != 0),
        (100, 0, true)
    );
    world.0.meters().end_log(SCOPE);
    assert!(world.0.meters().log(SCOPE).0.is_empty());
}

#[test]
fn primaries_are_kept_that_were_retained_more_often_than_released() {
    let world = World::new();
    let caller = by(SCOPE);
    for ordinal in [0, 0, 1] {
        let place = Place::cuda(ordinal);
        world.0.apply(&Event::PrimaryRetained { place, caller });
    }
    for ordinal in [0, 1] {
        let place = Place::cuda(ordinal);
        world.0.apply(&Event::PrimaryReleased { place, caller });
    }
    assert_eq!(
        world.0.scopes.primaries_kept(|_| true),
        [(Place::cuda(0), 1)]
    );
    assert_eq!(world.0.scopes.primaries_kept(|_| false), []);
}

#[test]
fn frees_of_unknown_addresses_are_noted_for_awaited_scopes_up_to_a_bound() {
    let world = World::new();
    free(&world.0, super::key(1), by(SCOPE), 0);
    assert!(world.0.free_log.unknown(SCOPE).is_empty(), "nobody waits");
    world.0.free_log.begin(&[SCOPE, INNER], Instant::now);
    free(&world.0, super::key(2), by(INNER), 0);
    free(&world.0, super::key(3), by(ScopeId(3)), 0);
    free(&world.0, super::key(4), by(SCOPE), FAILED);
    for address in 10..10_020 {
        free(&world.0, super::key(address), by(SCOPE), 0);
    }
    let unknown = world.0.free_log.unknown(SCOPE);
    // One of the ten thousand frees that are kept belongs to another scope.
    assert_eq!(
        (unknown.len(), unknown[0].key, unknown[0].by),
        (9_999, super::key(10), by(SCOPE))
    );
    assert_eq!(world.0.unknown_frees(), 1 + 2 + 10_010);
    allocate(&world.0, 1, 8, by(SCOPE));
    allocate(&world.0, 2, 8, by(INNER));
    for address in [1, 2] {
        free(&world.0, super::key(address), by(SCOPE), 0);
    }
    world.0.free_log.end(&[SCOPE]);
    assert!(world.0.free_log.unknown(SCOPE).is_empty());
    assert_eq!(world.0.free_log.unknown(INNER).len(), 1);
    let left = world.0.free_log.frees(|_| true);
    assert_eq!((left.len(), left[0].record.made.caller.scope), (1, INNER));
    free(&world.0, super::key(5), by(SCOPE), 0);
    assert!(world.0.free_log.unknown(SCOPE).is_empty());
    free(&world.0, super::key(6), by(INNER), 0);
    assert_eq!(world.0.free_log.unknown(INNER).len(), 2);
}

#[test]
fn a_curve_has_the_events_during_its_watch() {
    let world = World::new();
    allocate(&world.0, 0x1000, 100, by(SCOPE));
    let (watch, _) = world.0.watch(false);
    let since = world.0.now();
    allocate(&world.0, 0x2000, 50, by(SCOPE));
    {
        let _another = world.0.watch(false);
        free(&world.0, super::key(0x1000), by(SCOPE), 0);
    }
    allocate(&world.0, 0x3000, 7, by(SCOPE));
    let stream = creation(Kind::Stream, 0x5, 0);
    world.0.apply(&Event::Created(stream));
    let curves = world.0.curves(&watch, since, 128);
    let seen: Vec<_> = curves
        .iter()
        .map(|curve| {
            let values: Vec<_> = curve.samples.iter().map(|sample| sample.last).collect();
            (curve.of.layer, curve.start, values)
        })
        .collect();
    assert_eq!(
        seen,
        [
            (None, 0, vec![1]),
            (Some(Layer::DRIVER), 100, vec![150, 50, 57])
        ]
    );
    drop(watch);
    // Events are not logged while no watch is active.
    allocate(&world.0, 0x4000, 8, by(SCOPE));
    let (watch, _) = world.0.watch(false);
    assert!(world.0.curves(&watch, 0, 128).is_empty());
    allocate(&world.0, 0x5000, 8, by(SCOPE));
    let curves = world.0.curves(&watch, 0, 128);
    assert_eq!((curves[0].start, curves[0].samples.len()), (65, 1));
}

#[test]
fn a_mark_divides_anomalies_and_stacks_are_the_ledger_s_own() {
    let world = World::new();
    allocate(&world.0, 0x1000, 8, by(SCOPE));
    free(&world.0, super::key(0x1000), by(SCOPE), FAILED);
    let mark = world.0.anomalies.mark();
    let failing = Caller {
        stack: StackId(1),
        ..by(SCOPE)
    };
    free(&world.0, super::key(0x1000), failing, FAILED);
    let [Anomaly::FailedFree(failed)] = world.0.anomalies.since(mark)[..] else {
        panic!("one since");
    };
    assert_eq!(failed.caller.stack, LINE, "the stack is that of the end");
    assert_eq!(world.0.anomalies.since(Mark::default()).len(), 2);
    let id = world.0.stacks().intern(&[1, 2]);
    assert_eq!(world.0.stacks().frames(id), [1, 2]);
}

#[test]
fn a_whole_program_reports_everything_that_ends_with_a_context() {
    for own in [false, true] {
        let ledger = Ledger::new();
        assert!(!ledger.is_all_its_own());
        if own {
            ledger.own_all();
            assert!(ledger.is_all_its_own());
        }
        allocate(&ledger, 0x1000, 8, by(ScopeId::NONE));
        // A check may still be responsible for the memory of a scope that is not open.
        allocate(&ledger, 0x2000, 8, by(ScopeId(9)));
        allocate(&ledger, 0x3000, 8, by(ScopeId::NOBODY));
        ledger.apply(&Event::ContextDestroyed {
            context: ContextUid(1),
            cause: ContextEnd::Reset,
            caller: by(ScopeId::NONE),
        });
        let anomalies = ledger.anomalies.since(Mark::default());
        let scopes: Vec<_> = anomalies.iter().map(|it| it.caller().scope).collect();
        let expected = [ScopeId::NONE, ScopeId(9)];
        assert_eq!(scopes, expected[usize::from(!own)..]);
    }
}

#[test]
fn the_table_of_kinds_decides_what_ends_with_a_context() {
    assert!(Kind::Stream.ends_with_context());
    assert!(!Kind::Pool.ends_with_context());
    for kind in Kind::ALL {
        let world = World::new();
        world.0.apply(&Event::Created(creation(kind, 0x1000, 8)));
        world.0.apply(&Event::ContextDestroyed {
            context: ContextUid(1),
            cause: ContextEnd::Destroyed,
            caller: by(SCOPE),
        });
        assert_eq!(
            world.live().len(),
            usize::from(!kind.ends_with_context()),
            "{kind:?}"
        );
    }
    // A pointer into an imported pool belongs to the pool.
    let world = World::new();
    let made = Creation {
        pool: 5,
        ..creation(Kind::Imported, 0x1000, 8)
    };
    world.0.apply(&Event::Created(made));
    world.0.apply(&Event::ContextDestroyed {
        context: ContextUid(1),
        cause: ContextEnd::Destroyed,
        caller: by(SCOPE),
    });
    assert_eq!(world.live().len(), 1);
}

/// Returns the key of a Vulkan buffer. Several live objects may have the same handle.
fn object(value: u64) -> Key {
    object_of(Kind::Buffer, value)
}

fn object_of(kind: Kind, value: u64) -> Key {
    let (context, copy) = (ContextUid(1), 0);
    Key::new(
        Space::Object {
            kind,
            context,
            copy,
        },
        value,
    )
}

#[test]
fn objects_with_the_same_handle_each_count_and_the_last_is_bound_and_freed_first() {
    let world = World::new();
    for line in 1..=3 {
        let made = Creation {
            key: object(0x55),
            caller: Caller {
                stack: StackId(line),
                ..caller(SCOPE)
            },
            ..creation(Kind::Buffer, 0x55, 0)
        };
        world.0.apply(&Event::Created(made));
    }
    assert_eq!(world.0.live(Kind::Buffer), 3);
    assert_eq!(world.0.anomalies.since(Mark::default()), []);
    // A later memory object may get the handle of a freed one to which something is still bound.
    let memory = |value| {
        let key = object_of(Kind::Memory, value);
        let made = Creation {
            key,
            ..creation(Kind::Memory, value, 128)
        };
        world.0.apply(&Event::Created(made));
        let is_it = |record: &Record| record.key() == key;
        world.0.select(is_it)[0].sequence
    };
    let free_memory = |value| free(&world.0, object_of(Kind::Memory, value), by(SCOPE), 0);
    let first = memory(0x66);
    let bind = |key, memory, bytes| world.0.apply(&Event::Bound { key, memory, bytes });
    bind(object(0x55), 0x66, 64);
    let bound = || -> Vec<(u32, u64, u64)> {
        let all = world.0.select(|it| it.made.kind == Kind::Buffer);
        let shown = |it: &Record| (it.made.caller.stack.0, it.made.pool, it.made.bytes);
        all.iter().map(shown).collect()
    };
    assert_eq!(bound(), [(1, 0, 0), (2, 0, 0), (3, first, 64)]);
    free_memory(0x66);
    let second = memory(0x66);
    assert_eq!(bound(), [(1, 0, 0), (2, 0, 0), (3, 0, 0)]);
    free(&world.0, object(0x55), by(SCOPE), 0);
    bind(object(0x55), 0x66, 32);
    assert_eq!(bound(), [(1, 0, 0), (2, second, 32)]);
    free_memory(0x66);
    free(&world.0, object(0x55), by(SCOPE), 0);
    free(&world.0, object(0x55), by(SCOPE), 0);
    assert_eq!((bound(), world.0.unknown_frees()), (vec![], 0));
    // Memory has its own size, which binding does not change.
    allocate(&world.0, 0x1000, 8, by(SCOPE));
    bind(super::key(0x1000), 0x66, 64);
    assert_eq!(world.live(), [(0x1000, 8)]);
}

#[test]
fn a_free_in_flight_is_known_until_it_ends() {
    let world = World::new();
    allocate(&world.0, 0x1000, 8, by(SCOPE));
    assert!(!world.0.frees_in_flight());
    let (key, caller) = (super::key(0x1000), by(INNER));
    let ticket = world.0.apply(&Event::FreeBegan { key, caller });
    assert!(world.0.frees_in_flight());
    world.end_free(ticket.expect("a ticket"), 0);
    assert!(!world.0.frees_in_flight());
}

#[test]
fn more_frees_than_can_end_without_a_lock_all_end() {
    // There are enough frees that each shard has many of them.
    const FREES: u64 = 1000;
    for (error, left) in [(0, 0), (FAILED, FREES)] {
        let world = World::new();
        for address in 0..FREES {
            allocate(&world.0, address, 1, by(SCOPE));
        }
        let begin = |address| {
            let (key, caller) = (super::key(address), by(SCOPE));
            let ticket = world.0.apply(&Event::FreeBegan { key, caller });
            ticket.expect("a ticket")
        };
        let tickets: Vec<_> = (0..FREES).map(begin).collect();
        assert!(world.live().is_empty() && world.0.frees_in_flight());
        for ticket in tickets.into_iter().rev() {
            world.end_free(ticket, error);
        }
        assert!(!world.0.frees_in_flight());
        assert_eq!(
            (world.live().len() as u64, world.bytes().live),
            (left, left)
        );
        super::assert_figures(&world.0);
    }
}

#[test]
fn allocations_at_one_address_and_of_shared_objects_are_counted() {
    let world = World::new();
    for _ in 0..3 {
        allocate(&world.0, 0x1000, 8, by(SCOPE));
        free(&world.0, super::key(0x1000), by(SCOPE), 0);
    }
    assert_eq!(world.0.allocations(LINE, SCOPE), Some(3));
    let opened = Creation {
        key: Key::new(Space::IpcPointer, 0x2000),
        caller: by(SCOPE),
        ..creation(Kind::Imported, 0x2000, 8)
    };
    for _ in 0..2 {
        world.0.apply(&Event::Created(opened));
    }
    assert_eq!(world.0.allocations(LINE, SCOPE), Some(5));
}

#[test]
fn nothing_in_a_curve_or_a_log_is_later_than_the_last_event() {
    let world = World::new();
    world.0.begin_log(SCOPE);
    let (watch, _) = world.0.watch(false);
    let is_past = |expected: u64| {
        let now = world.0.now();
        let curves = world.0.curves(&watch, 0, 128);
        let samples = curves.iter().flat_map(|curve| &curve.samples);
        let last = samples.map(|sample| sample.until).max();
        assert_eq!(last, Some(now - expected));
        let (readings, _) = world.0.meters().log(SCOPE);
        let lives = readings.iter().flat_map(|reading| &reading.lifetimes);
        assert!(lives.into_iter().all(|life| life.freed < now));
    };
    let opened = Creation {
        key: Key::new(Space::IpcPointer, 0x2000),
        ..creation(Kind::Imported, 0x2000, 8)
    };
    world.0.apply(&Event::Created(opened));
    is_past(1);
    allocate(&world.0, 0x1000, 8, by(SCOPE));
    free(&world.0, super::key(0x1000), by(SCOPE), FAILED);
    is_past(1);
    allocate(&world.0, 0x3000, 8, by(SCOPE));
    world.0.apply(&Event::ContextDestroyed {
        context: ContextUid(1),
        cause: ContextEnd::Reset,
        caller: by(SCOPE),
    });
    is_past(1);
}
