mod physical;

use super::super::tests::{FAILED, SCOPE, World, caller, creation};
use crate::ledger::event::{ContextEnd, ContextUid, Creation, Event, Key, ScopeId, Space, Ticket};
use crate::ledger::{Anomaly, Kind, Mark, Record};

/// Memory of another process that this process has opened.
const OPENED: Key = Key::new(Space::IpcPointer, 0x7f00_0000_0000);

fn shared(space: Space, kind: Kind, value: u64, bytes: u64) -> Creation {
    Creation {
        key: Key::new(space, value),
        ..creation(kind, value, bytes)
    }
}

/// Steps for tests with reference-counted resources.
impl World {
    pub(in crate::ledger::apply) fn begin(&self, event: &Event) -> Ticket {
        self.0.apply(event).expect("a release has a ticket")
    }

    pub(in crate::ledger::apply) fn begin_release(&self, key: Key, count: u64) -> Ticket {
        let caller = caller(SCOPE);
        self.begin(&Event::ReleaseBegan {
            key,
            count,
            graph: None,
            caller,
        })
    }

    pub(in crate::ledger::apply) fn release(&self, key: Key, count: u64) {
        self.end_free(self.begin_release(key, count), 0);
    }

    pub(in crate::ledger::apply) fn records(&self) -> Vec<Record> {
        self.0.select(|_| true)
    }

    pub(in crate::ledger::apply) fn anomalies(&self) -> Vec<Anomaly> {
        self.0.anomalies.since(Mark::default())
    }

    /// Whether every figure says that nothing is live.
    pub(in crate::ledger::apply) fn is_empty(&self) -> bool {
        self.records().is_empty()
            && (self.bytes().live, self.0.snapshot(SCOPE).live) == (0, 0)
            && !self.0.frees_in_flight()
            && self.0.holdings().is_empty()
    }

    fn open(&self, scope: ScopeId) {
        let made = shared(OPENED.space, Kind::Imported, OPENED.value(), 0);
        self.0.apply(&Event::Created(Creation {
            caller: caller(scope),
            ..made
        }));
    }
}

fn context(value: u64) -> Key {
    let space = Space::Handle(Kind::Context);
    Key::new(space, value)
}

#[test]
fn memory_opened_twice_is_closed_twice() {
    let world = World::new();
    world.open(SCOPE);
    world.open(SCOPE);
    assert_eq!(world.records().len(), 2, "one for each call");
    assert_eq!(world.0.live(Kind::Imported), 1, "of one object");
    world.release(OPENED, 1);
    assert_eq!(world.records().len(), 1);
    let last = world.begin_release(OPENED, 1);
    assert!(world.records().is_empty());
    world.end_free(last, FAILED);
    assert_eq!(world.records().len(), 1, "the close failed");
    world.release(OPENED, 1);
    assert!(world.is_empty());
    world.open(SCOPE);
    assert_eq!(world.records().len(), 1, "and opened again");
}

#[test]
fn memory_opened_again_is_the_later_scope_s_until_it_is_closed_once() {
    let world = World::new();
    let owners = || {
        let records = world.records();
        let owners = records.iter().map(|record| record.made.caller.scope);
        owners.collect::<Vec<_>>()
    };
    let later = ScopeId(SCOPE.0 + 1);
    world.open(SCOPE);
    world.open(later);
    assert_eq!(owners(), [SCOPE, later]);
    assert_eq!(world.0.snapshot(SCOPE).live, 1, "still open");
    let close = world.begin_release(OPENED, 1);
    assert_eq!(owners(), [SCOPE]);
    world.end_free(close, FAILED);
    assert_eq!(owners(), [SCOPE, later], "the close failed");
    world.release(OPENED, 1);
    assert_eq!((owners(), world.0.snapshot(later).live), (vec![SCOPE], 0));
    world.release(OPENED, 1);
    assert!(world.is_empty());
}

#[test]
fn two_concurrent_closes_each_count() {
    for (first, second) in [(0, 0), (0, FAILED), (FAILED, 0), (FAILED, FAILED)] {
        let world = World::new();
        for _ in 0..2 {
            world.open(SCOPE);
        }
        let calls = [(); 2].map(|()| world.begin_release(OPENED, 1));
        world.end_free(calls[0], first);
        world.end_free(calls[1], second);
        let left = u64::from(first != 0) + u64::from(second != 0);
        assert_eq!(world.records().len() as u64, left.min(1));
        (0..left).for_each(|_| world.release(OPENED, 1));
        assert!(world.is_empty(), "{first} {second}");
        assert_eq!(world.0.unknown_frees(), 0);
    }
}

#[test]
fn an_attached_context_ends_with_its_last_detach_or_its_destruction() {
    for destroyed in [true, false] {
        let world = World::new();
        let key = context(0xc0);
        world
            .0
            .apply(&Event::Created(creation(Kind::Context, 0xc0, 0)));
        world.0.apply(&Event::Retained { key, count: 1 });
        if destroyed {
            let event = Event::FreeBegan {
                key,
                caller: caller(SCOPE),
            };
            world.end_free(world.begin(&event), FAILED);
            assert_eq!(world.records().len(), 1);
            world.end_free(world.begin(&event), 0);
        } else {
            world.release(key, 1);
            assert_eq!(world.records().len(), 1);
            world.release(key, 1);
        }
        assert!(world.is_empty(), "destroyed: {destroyed}");
    }
}

#[test]
fn an_object_that_ends_with_its_context_loses_all_references() {
    let world = World::new();
    let scopes = [SCOPE, ScopeId(SCOPE.0 + 1)];
    scopes.iter().for_each(|scope| world.open(*scope));
    world.0.apply(&Event::ContextDestroyed {
        context: ContextUid(1),
        cause: ContextEnd::Reset,
        caller: caller(SCOPE),
    });
    let anomalies = world.anomalies();
    let ended = anomalies.iter().filter_map(Anomaly::ended);
    let owners: Vec<_> = ended.map(|record| record.made.caller.scope).collect();
    assert_eq!(owners, scopes, "each call that opened it");
    world.open(SCOPE);
    world.release(OPENED, 1);
    assert!(world.is_empty(), "one reference, as opened once");
}

#[test]
fn an_object_that_is_created_again_while_it_is_held_was_overwritten() {
    let object = Key::new(Space::Handle(Kind::UserObject), 0x0b);
    let made = shared(object.space, Kind::UserObject, object.value(), 0);
    let world = World::new();
    world.0.apply(&Event::Created(made));
    let release = world.begin_release(object, 1);
    // The driver reuses the handle before the call returns.
    world.0.apply(&Event::Created(made));
    world.end_free(release, 0);
    assert_eq!(world.anomalies(), []);
    world.0.apply(&Event::Created(made));
    assert!(matches!(
        world.anomalies()[..],
        [Anomaly::Overwritten { .. }]
    ));
    assert_eq!(world.records().len(), 1);
}

#[test]
fn a_context_s_handle_that_ended_with_it_may_be_used_again() {
    let made = shared(Space::Handle(Kind::Context), Kind::Context, 5, 0);
    let world = World::new();
    for _ in 0..2 {
        world.0.apply(&Event::Created(made));
        world.0.apply(&Event::ContextDestroyed {
            context: ContextUid(1),
            cause: ContextEnd::Destroyed,
            caller: caller(SCOPE),
        });
        world.0.apply(&Event::ContextCreated {
            context: ContextUid(1),
            handle: 5,
            place: crate::ledger::Place::HOST,
        });
    }
    let ended = |it: &Anomaly| matches!(it, Anomaly::EndedWithContext { .. });
    assert!(
        world.anomalies().iter().all(ended),
        "{:?}",
        world.anomalies()
    );
}

#[test]
fn a_release_that_leaves_another_reference_frees_nothing_and_its_failure_has_a_line() {
    let object = Key::new(Space::Handle(Kind::UserObject), 0x0b);
    let world = World::new();
    world.0.free_log.begin(&[SCOPE], std::time::Instant::now);
    let made = shared(object.space, Kind::UserObject, object.value(), 0);
    world.0.apply(&Event::Created(made));
    let (key, count) = (object, 1);
    world.0.apply(&Event::Retained { key, count });
    world.release(object, 1);
    assert!(world.0.free_log.frees(|_| true).is_empty());
    let ticket = world.begin_release(object, 1);
    let stack = crate::ledger::StackId(9);
    world.0.apply(&Event::FreeEnded {
        ticket,
        error: FAILED,
        stack,
    });
    let [Anomaly::FailedFree(failed)] = world.anomalies()[..] else {
        panic!("{:?}", world.anomalies());
    };
    assert_eq!(failed.caller.stack, stack);
    world.release(object, 1);
    assert_eq!(world.0.free_log.frees(|_| true).len(), 1);
}

#[test]
fn the_late_end_of_a_release_that_found_nothing_frees_nothing_new() {
    let object = Key::new(Space::Handle(Kind::UserObject), 0x0b);
    let made = shared(object.space, Kind::UserObject, object.value(), 0);
    let world = World::new();
    let release = world.begin_release(object, 1);
    world.0.apply(&Event::Created(made));
    world.end_free(release, 0);
    assert_eq!(world.records().len(), 1);
}

#[test]
fn of_two_concurrent_releases_the_later_one_may_be_the_successful_one() {
    let object = Key::new(Space::Handle(Kind::UserObject), 0x0b);
    let world = World::new();
    let made = shared(object.space, Kind::UserObject, object.value(), 0);
    world.0.apply(&Event::Created(made));
    let [first, second] = [(), ()].map(|()| world.begin_release(object, 1));
    world.end_free(first, FAILED);
    world.end_free(second, 0);
    assert!(world.is_empty());
}
