mod model;
mod program;
mod readings;
mod threads;

use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;

use super::super::event::{
    Caller, ContextEnd, ContextUid, Creation, Event, Key, ScopeId, Space, Ticket,
};
use super::super::{
    Anomaly, Counted, FailedCall, Kind, Layer, Ledger, Mark, Place, Record, StackId, UsageKey,
};

const CUDA: Place = Place::HOST;
pub(super) const SCOPE: ScopeId = ScopeId(1);
pub(super) const FAILED: u32 = 1;

fn key(address: u64) -> Key {
    Key::new(Space::DevicePointer, address)
}

pub(super) fn caller(scope: ScopeId) -> Caller {
    Caller {
        scope,
        ..Caller::default()
    }
}

pub(super) fn creation(kind: Kind, address: u64, bytes: u64) -> Creation {
    let space = if kind.is_handle() {
        Space::Handle(kind)
    } else {
        Space::DevicePointer
    };
    Creation {
        key: Key::new(space, address),
        kind,
        layer: Layer::DRIVER,
        place: CUDA,
        bytes,
        context: ContextUid(1),
        stream: 0,
        pool: 0,
        caller: caller(SCOPE),
    }
}

/// A ledger with an open scope, and the steps of a test.
pub(super) struct World(pub(super) Ledger);

impl World {
    pub(super) fn new() -> Self {
        let ledger = Ledger::new();
        ledger.open_scope(SCOPE);
        Self(ledger)
    }

    fn allocate(&self, address: u64, bytes: u64) {
        self.0
            .apply(&Event::Created(creation(Kind::Linear, address, bytes)));
    }

    fn begin_free(&self, address: u64) -> Ticket {
        let event = Event::FreeBegan {
            key: key(address),
            caller: caller(SCOPE),
        };
        self.0.apply(&event).expect("a release has a ticket")
    }

    pub(super) fn end_free(&self, ticket: Ticket, error: u32) {
        self.0.apply(&Event::FreeEnded {
            ticket,
            error,
            stack: StackId::default(),
        });
    }

    pub(super) fn live(&self) -> Vec<(u64, u64)> {
        let records = self.0.select(|_| true);
        records
            .iter()
            .map(|record| (record.made.key.value(), record.made.bytes))
            .collect()
    }

    pub(super) fn bytes(&self) -> Counted {
        self.0.bytes(Layer::DRIVER, CUDA)
    }
}

/// Panics if a figure differs from the sum over the records in the table, which are counted one by
/// one here. No other thread may use the ledger meanwhile.
#[track_caller]
pub(super) fn assert_figures(ledger: &Ledger) {
    let mut usage: BTreeMap<UsageKey, u64> = BTreeMap::new();
    let mut kinds: BTreeMap<Kind, u64> = BTreeMap::new();
    for record in ledger.select(|_| true) {
        *kinds.entry(record.made.kind).or_default() += 1;
        let (key, amount) = (UsageKey::of(&record.made), UsageKey::amount(&record.made));
        let sum = usage.entry(key).or_default();
        *sum = sum.wrapping_add(amount);
    }
    for kind in Kind::ALL {
        let counted = kinds.get(&kind).copied().unwrap_or(0);
        assert_eq!(ledger.live(kind), counted, "{kind:?}");
    }
    for (key, counted) in ledger.snapshot(ScopeId::NONE).usage {
        let live = usage.remove(&key).unwrap_or(0);
        assert_eq!(counted.live, live, "{key:?}");
    }
    usage.retain(|_, live| *live != 0);
    assert_eq!(usage, BTreeMap::new(), "not counted at all");
}

#[test]
fn figures_follow_every_allocation_and_free() {
    let world = World::new();
    world.allocate(0x1000, 100);
    world.allocate(0x2000, 50);
    world.end_free(world.begin_free(0x1000), 0);
    assert_eq!(world.live(), [(0x2000, 50)]);
    assert_eq!(
        world.bytes(),
        Counted {
            live: 50,
            peak: 150
        }
    );
    assert_eq!(world.0.live(Kind::Linear), 1);
    assert_eq!(world.0.snapshot(SCOPE).live, 1);
    world.0.watch(true);
    assert_eq!(world.bytes(), Counted { live: 50, peak: 50 });
}

#[test]
fn frees_of_an_awaited_scope_are_noted_with_their_time() {
    let world = World::new();
    world.allocate(0x1000, 100);
    world.allocate(0x2000, 50);
    world.allocate(0x3000, 20);
    world.end_free(world.begin_free(0x1000), 0);
    let before = Instant::now();
    world.0.free_log.begin(&[SCOPE], Instant::now);
    // These records were live before the frees were logged.
    world.end_free(world.begin_free(0x2000), 0);
    world.end_free(world.begin_free(0x3000), FAILED);
    let released = world.0.free_log.frees(|record| record.made.bytes < 100);
    let [released] = released[..] else {
        panic!("{released:?}");
    };
    assert_eq!(released.record.made.key.value(), 0x2000);
    assert!(released.at >= before);
    assert!(
        world
            .0
            .free_log
            .frees(|record| record.made.bytes > 50)
            .is_empty()
    );
}

#[test]
fn an_address_allocated_again_while_live_reports_both_records() {
    let world = World::new();
    let layer = Layer::allocator("overwritten-test");
    let at = |place, bytes, space| Creation {
        key: Key::new(space, 0x1000),
        layer,
        place,
        ..creation(Kind::Block, 0x1000, bytes)
    };
    let (one, other) = (Place::cuda(0), Place::cuda(1));
    let space = Space::Observed(layer);
    for made in [at(one, 1 << 30, space), at(other, 64, space)] {
        world.0.apply(&Event::Created(made));
    }
    let [
        Anomaly::Overwritten {
            record,
            by: Some(by),
        },
    ] = world.0.anomalies.since(Mark::default())[..]
    else {
        panic!("{:?}", world.0.anomalies.since(Mark::default()));
    };
    let what = |record: &Record| (record.made.layer, record.made.place, record.made.bytes);
    assert_eq!(what(&record), (layer, one, 1 << 30));
    assert_eq!(what(&by), (layer, other, 64));
    // If an allocator declares that each place has its own addresses, these are two records.
    for (place, bytes) in [(one, 20), (other, 30)] {
        let made = at(place, bytes, Space::ObservedAt(layer, place));
        world.0.apply(&Event::Created(made));
    }
    assert_eq!(world.0.anomalies.since(Mark::default()).len(), 1);
    assert_eq!(world.live(), [(0x1000, 64), (0x1000, 20), (0x1000, 30)]);
}

#[test]
fn an_address_handed_out_again_before_the_free_ends_keeps_its_new_record() {
    let world = World::new();
    world.allocate(0x1000, 100);
    let first = world.begin_free(0x1000);
    world.allocate(0x1000, 70);
    world.end_free(first, 0);
    assert_eq!(world.live(), [(0x1000, 70)]);
    assert_eq!(world.bytes().live, 70);
    assert_eq!(world.0.snapshot(SCOPE).live, 1);
}

#[test]
fn a_failed_free_keeps_the_record_and_is_reported() {
    let world = World::new();
    let mark = world.0.anomalies.mark();
    world.allocate(0x1000, 100);
    world.end_free(world.begin_free(0x1000), FAILED);
    assert_eq!(world.live(), [(0x1000, 100)]);
    assert_eq!((world.bytes().live, world.0.snapshot(SCOPE).live), (100, 1));
    let anomalies = world.0.anomalies.since(mark);
    let [
        Anomaly::FailedFree(FailedCall {
            record: Some(record),
            error: FAILED,
            ..
        }),
    ] = anomalies[..]
    else {
        panic!("{anomalies:?}");
    };
    assert_eq!(record.made.bytes, 100);
}

#[test]
fn a_free_while_the_driver_shuts_down_counts_as_done() {
    let world = World::new();
    let mark = world.0.anomalies.mark();
    world.allocate(0x1000, 100);
    world.end_free(world.begin_free(0x1000), super::DEINITIALIZED);
    assert!(world.live().is_empty() && world.0.anomalies.since(mark).is_empty());
}

#[test]
fn of_two_concurrent_frees_only_one_counts() {
    // The call that removed the record fails, and the other one succeeds.
    for winner_ends_first in [true, false] {
        let world = World::new();
        world.allocate(0x1000, 100);
        let (loser, winner) = (world.begin_free(0x1000), world.begin_free(0x1000));
        if winner_ends_first {
            world.end_free(winner, 0);
            world.end_free(loser, FAILED);
        } else {
            world.end_free(loser, FAILED);
            world.end_free(winner, 0);
        }
        assert!(world.live().is_empty(), "winner first: {winner_ends_first}");
        assert_eq!((world.bytes().live, world.0.snapshot(SCOPE).live), (0, 0));
    }
}

#[test]
fn a_late_end_of_an_unknown_free_does_not_take_a_new_record() {
    let world = World::new();
    let unknown = world.begin_free(0x1000);
    world.allocate(0x1000, 70);
    world.end_free(unknown, 0);
    assert_eq!(world.live(), [(0x1000, 70)]);
    assert_eq!(world.0.unknown_frees(), 1);
}

#[test]
fn a_captured_free_changes_nothing() {
    let world = World::new();
    let mark = world.0.anomalies.mark();
    world.allocate(0x1000, 100);
    let ticket = world.begin_free(0x1000);
    world.0.apply(&Event::FreeCaptured { ticket });
    assert_eq!(world.live(), [(0x1000, 100)]);
    assert!(world.0.anomalies.since(mark).is_empty());
}

#[test]
fn earlier_memory_that_a_scope_frees_gives_no_credit_but_is_counted() {
    let world = World::new();
    world.allocate(0x1000, 100);
    let inner = ScopeId(2);
    world.0.open_scope(inner);
    // Meanwhile, a thread that belongs to no scope allocates.
    world.0.apply(&Event::Created(Creation {
        caller: caller(ScopeId::NONE),
        ..creation(Kind::Linear, 0x2000, 100)
    }));
    for address in [0x1000, 0x2000] {
        let began = Event::FreeBegan {
            key: key(address),
            caller: caller(inner),
        };
        let ticket = world.0.apply(&began).unwrap();
        world.end_free(ticket, 0);
    }
    assert_eq!(world.0.snapshot(inner).live, 0);
    let returned = world.0.close_scope(inner);
    assert_eq!((returned.count, returned.bytes), (1, 100));
}

#[test]
fn a_context_takes_its_own_records_with_it() {
    let world = World::new();
    let place = CUDA;
    let context = ContextUid(1);
    world.0.apply(&Event::ContextCreated {
        context,
        handle: 0xc0,
        place,
    });
    assert_eq!(world.0.contexts.all()[0].handle, 0xc0);
    let mark = world.0.anomalies.mark();
    for (kind, address) in [
        (Kind::Linear, 1),
        (Kind::Stream, 2),
        (Kind::StreamOrdered, 3),
        (Kind::Pool, 4),
    ] {
        world.0.apply(&Event::Created(creation(kind, address, 8)));
    }
    let other = Creation {
        context: ContextUid(2),
        ..creation(Kind::Linear, 5, 8)
    };
    world.0.apply(&Event::Created(other));
    let cause = ContextEnd::Reset;
    world.0.apply(&Event::ContextDestroyed {
        context,
        cause,
        caller: caller(SCOPE),
    });
    let mut left: Vec<_> = world.live().iter().map(|(address, _)| *address).collect();
    left.sort_unstable();
    assert_eq!(left, [3, 4, 5]);
    let ended = world.0.anomalies.since(mark);
    let is_ended = |a: &Anomaly| matches!(a, Anomaly::EndedWithContext { cause, .. } if *cause == ContextEnd::Reset);
    assert_eq!(ended.iter().filter(|a| is_ended(a)).count(), 2, "{ended:?}");
    assert!(world.0.contexts.all().is_empty());
}

#[test]
fn records_that_end_with_a_context_stay_with_the_scope_that_made_them() {
    let world = World::new();
    let mark = world.0.anomalies.mark();
    world.allocate(0x1000, 100);
    world.0.apply(&Event::ContextDestroyed {
        context: ContextUid(1),
        cause: ContextEnd::LastRelease,
        caller: caller(ScopeId::NONE),
    });
    let ended = world.0.anomalies.since(mark);
    let owners: Vec<_> = ended.iter().map(|a| a.caller().scope).collect();
    assert_eq!(owners, [SCOPE]);
}

/// Memory that was allocated before the harness began to listen is freed. Its address is handed out
/// again, and a free of the new memory fails. The first free ends while this second free is in
/// flight.
#[test]
fn a_free_of_earlier_memory_does_not_hide_a_failed_free() {
    let world = World::new();
    let earlier = world.begin_free(0x1000);
    world.allocate(0x1000, 100);
    let failing = world.begin_free(0x1000);
    world.end_free(earlier, 0);
    world.end_free(failing, FAILED);
    assert_eq!(world.live(), [(0x1000, 100)]);
    assert_eq!((world.bytes().live, world.0.snapshot(SCOPE).live), (100, 1));
}

/// Two threads free one address at once, and the driver gives it to a third thread before either
/// call returns.
#[test]
fn an_address_freed_twice_and_handed_out_anew_keeps_its_new_record() {
    let world = World::new();
    world.allocate(0x1000, 100);
    let failing = world.begin_free(0x1000);
    let succeeding = world.begin_free(0x1000);
    world.allocate(0x1000, 70);
    world.end_free(failing, FAILED);
    world.end_free(succeeding, 0);
    assert_eq!(world.live(), [(0x1000, 70)]);
    assert_eq!((world.bytes().live, world.0.snapshot(SCOPE).live), (70, 1));
    assert_figures(&world.0);
}

/// A call on another thread has done its work but has not yet returned when the driver destroys the
/// context.
#[test]
fn nothing_enters_a_context_that_has_ended() {
    let world = World::new();
    let mark = world.0.anomalies.mark();
    world.allocate(0x1000, 100);
    let freed = world.begin_free(0x1000);
    world.0.apply(&Event::ContextDestroyed {
        context: ContextUid(1),
        cause: ContextEnd::Reset,
        caller: caller(SCOPE),
    });
    world.end_free(freed, FAILED);
    world.allocate(0x2000, 100);
    assert_eq!(world.live(), []);
    assert_eq!(world.0.snapshot(SCOPE).live, 0);
    let ended = world.0.anomalies.since(mark);
    let is_ended = |a: &&Anomaly| matches!(a, Anomaly::EndedWithContext { .. });
    assert_eq!(ended.iter().filter(is_ended).count(), 2, "{ended:?}");
}

#[test]
fn a_stream_ordered_record_lives_where_its_pool_does() {
    let world = World::new();
    let pool = Creation {
        place: Place::cuda(1),
        ..creation(Kind::Pool, 0x70, 0)
    };
    world.0.apply(&Event::Created(pool));
    let from_pool = Creation {
        place: Place::UNKNOWN,
        pool: 0x70,
        ..creation(Kind::StreamOrdered, 1, 8)
    };
    world.0.apply(&Event::Created(from_pool));
    assert_eq!(world.0.get(&key(1)).unwrap().made.place, Place::cuda(1));
}

#[test]
fn a_stack_counts_the_allocations_of_its_scope() {
    let world = World::new();
    let stack = world.0.stacks().intern(&[1, 2]);
    let caller = Caller {
        stack,
        ..caller(SCOPE)
    };
    for address in 0..3 {
        let made = Creation {
            caller,
            ..creation(Kind::Linear, address, 8)
        };
        world.0.apply(&Event::Created(made));
    }
    assert_eq!(world.0.allocations(stack, SCOPE), Some(3));
    assert_eq!(world.0.allocations(StackId(0), SCOPE), None);
}

#[test]
fn a_stack_counts_for_the_latest_scope_that_allocates_there() {
    let world = World::new();
    let stack = world.0.stacks().intern(&[1, 2]);
    let latest = ScopeId(2);
    world.0.open_scope(latest);
    for (address, scope) in [(0, SCOPE), (1, latest), (2, SCOPE), (3, latest)] {
        let caller = Caller {
            stack,
            ..caller(scope)
        };
        world.0.apply(&Event::Created(Creation {
            caller,
            ..creation(Kind::Linear, address << 21, 8)
        }));
    }
    assert_eq!(world.0.allocations(stack, latest), Some(2));
    assert_eq!(world.0.allocations(stack, SCOPE), None, "nobody knows");
}

#[test]
fn work_outside_any_open_scope_is_counted() {
    let world = World::new();
    let stranger = Creation {
        caller: Caller::default(),
        ..creation(Kind::Linear, 1, 8)
    };
    world.0.apply(&Event::Created(stranger));
    assert_eq!(world.0.snapshot(ScopeId::NONE).unowned, 1);
    world.0.close_scope(SCOPE);
    world.allocate(2, 8);
    assert_eq!(
        world.0.snapshot(ScopeId::NONE).unowned,
        2,
        "a closed scope owns nothing new"
    );
}

#[test]
fn threads_that_share_addresses_lose_and_invent_nothing() {
    let world = World::new();
    // Miri takes a thousand times as long, and chooses the order of the threads' steps itself.
    let rounds = if cfg!(miri) { 15 } else { 2_000 };
    thread::scope(|scope| {
        for thread in 0..4u64 {
            let world = &world;
            scope.spawn(move || {
                for round in 0..rounds {
                    let address = 0x1000 * (thread + 1) + (round % 7) * 8;
                    world.allocate(address, 8);
                    let ticket = world.begin_free(address);
                    world.end_free(ticket, if round % 5 == 0 { FAILED } else { 0 });
                    if round % 5 == 0 {
                        world.end_free(world.begin_free(address), 0);
                    }
                }
            });
        }
    });
    assert!(world.live().is_empty());
    assert_eq!((world.bytes().live, world.0.snapshot(SCOPE).live), (0, 0));
    assert!(!world.0.frees_in_flight());
}

#[test]
fn figures_stay_whole_while_a_record_is_released_as_it_is_made() {
    const ROUNDS: u32 = 100_000;
    let world = World::new();
    let (maker, releaser) = (&world, &world);
    thread::scope(|threads| {
        let making = threads.spawn(|| (0..ROUNDS).for_each(|_| maker.allocate(0x1000, 8)));
        threads.spawn(move || {
            while !making.is_finished() {
                releaser.end_free(releaser.begin_free(0x1000), 0);
            }
        });
    });
    let live = u32::try_from(world.live().len()).unwrap();
    assert_eq!(world.0.snapshot(SCOPE).live, live);
    assert_eq!(world.bytes().live, u64::from(live) * 8);
}
