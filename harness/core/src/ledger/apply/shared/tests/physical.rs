//! Tests of physical memory, which its handles and mappings hold.

use super::super::super::tests::{FAILED, SCOPE, World, caller};
use super::shared;
use crate::ledger::event::{ContextEnd, ContextUid, Creation, Event, Key, ScopeId, Space, Ticket};
use crate::ledger::{Anomaly, Holding, Kind, Place, Record};

const SIZE: u64 = 0x20_0000;
const ADDRESS: u64 = 0x7f00_0000_0000;
const HANDLE: u64 = 0x55;

fn handle(value: u64) -> Key {
    let space = Space::PhysicalHandle;
    Key::new(space, value)
}

/// Steps for tests with virtual memory management.
impl World {
    fn create(&self, handle: u64) {
        let made = shared(Space::PhysicalHandle, Kind::Physical, handle, SIZE);
        self.0.apply(&Event::Created(made));
    }

    fn import(&self, handle: u64) {
        let made = shared(Space::PhysicalHandle, Kind::Imported, handle, 0);
        self.0.apply(&Event::Created(made));
    }

    fn map(&self, address: u64, handle: u64) {
        self.0.apply(&Event::Mapped {
            address,
            bytes: SIZE,
            handle,
        });
    }

    fn begin_unmap(&self, address: u64, bytes: u64) -> Ticket {
        let caller = caller(SCOPE);
        self.begin(&Event::UnmapBegan {
            address,
            bytes,
            caller,
        })
    }

    fn unmap(&self, address: u64, bytes: u64) {
        self.end_free(self.begin_unmap(address, bytes), 0);
    }

    fn release_handle(&self, value: u64) {
        self.release(handle(value), 1);
    }

    /// Returns the numbers of references and mappings that hold each live object, the oldest object
    /// first.
    fn held(&self) -> Vec<(u64, u64)> {
        let holdings = self.0.holdings();
        let holding = |record: &Record| holdings[&record.key()];
        let held = |holding: Holding| (holding.references, holding.maps);
        self.records().iter().map(holding).map(held).collect()
    }
}

#[test]
fn physical_memory_lives_until_it_is_neither_named_nor_mapped() {
    let world = World::new();
    world.create(HANDLE);
    let [record] = world.records()[..] else {
        panic!("one record")
    };
    assert_eq!(record.key().space, Space::PhysicalObject);
    assert_eq!(
        (record.made.kind, record.made.bytes),
        (Kind::Physical, SIZE)
    );
    assert_eq!(
        (world.bytes().live, world.0.snapshot(SCOPE).live),
        (SIZE, 1)
    );
    world.map(ADDRESS, HANDLE);
    world.map(ADDRESS + SIZE, HANDLE);
    assert_eq!(world.held(), [(1, 2)]);
    world.release_handle(HANDLE);
    assert_eq!(world.held(), [(0, 2)]);
    world.unmap(ADDRESS, SIZE);
    assert_eq!(world.held(), [(0, 1)]);
    world.unmap(ADDRESS + SIZE, SIZE);
    assert!(world.is_empty());
    assert_eq!(world.anomalies(), []);
    assert_eq!(world.0.unknown_frees(), 0);
}

#[test]
fn a_handle_kept_after_unmapping_holds_the_memory() {
    let world = World::new();
    world.create(HANDLE);
    world.map(ADDRESS, HANDLE);
    world.unmap(ADDRESS, SIZE);
    assert_eq!(world.held(), [(1, 0)]);
    assert_eq!(world.bytes().live, SIZE);
}

#[test]
fn a_handle_issued_again_while_its_old_memory_is_mapped_is_another_object() {
    let world = World::new();
    world.create(HANDLE);
    world.map(ADDRESS, HANDLE);
    world.release_handle(HANDLE);
    world.create(HANDLE);
    world.map(ADDRESS + SIZE, HANDLE);
    assert_eq!(world.held(), [(0, 1), (1, 1)]);
    world.unmap(ADDRESS, SIZE);
    assert_eq!(world.held(), [(1, 1)], "the older one is gone");
    world.release_handle(HANDLE);
    world.unmap(ADDRESS + SIZE, SIZE);
    assert!(world.is_empty());
    assert_eq!(world.anomalies(), []);
}

#[test]
fn a_handle_retained_by_address_is_released_as_often() {
    for retained in [HANDLE, HANDLE + 1] {
        let world = World::new();
        world.create(HANDLE);
        world.map(ADDRESS, HANDLE);
        world.0.apply(&Event::HandleRetained {
            handle: retained,
            address: ADDRESS + SIZE - 1,
        });
        assert_eq!(world.held(), [(2, 1)]);
        world.unmap(ADDRESS, SIZE);
        world.release_handle(HANDLE);
        assert_eq!(world.held(), [(1, 0)], "{retained:#x}");
        world.release_handle(retained);
        assert!(world.is_empty());
    }
}

#[test]
fn memory_imported_twice_under_one_handle_is_one_object() {
    let world = World::new();
    world.import(HANDLE);
    world.import(HANDLE);
    assert_eq!(world.held(), [(2, 0)]);
    world.release_handle(HANDLE);
    world.release_handle(HANDLE);
    assert!(world.is_empty());
}

#[test]
fn one_call_unmaps_all_maps_of_its_range_and_none_beside_it() {
    let world = World::new();
    for (handle, address) in [(1, 0), (2, SIZE), (3, 2 * SIZE)] {
        world.create(handle);
        world.map(ADDRESS + address, handle);
        world.release_handle(handle);
    }
    world.unmap(ADDRESS, 2 * SIZE);
    let left = world.records();
    assert_eq!(left.len(), 1);
    assert_eq!(
        world.0.holdings()[&left[0].key()].mapped_at,
        Some(ADDRESS + 2 * SIZE)
    );
}

#[test]
fn a_release_or_an_unmap_that_fails_leaves_everything_as_it_was() {
    let world = World::new();
    for (value, address) in [(1, ADDRESS), (2, ADDRESS + SIZE)] {
        world.create(value);
        world.map(address, value);
    }
    world.release_handle(2);
    let before = (world.records(), world.held());
    let unmap = world.begin_unmap(ADDRESS, 2 * SIZE);
    assert_eq!(world.held(), [(1, 0)], "taken at the beginning");
    assert!(world.0.frees_in_flight());
    world.end_free(unmap, FAILED);
    world.end_free(world.begin_release(handle(1), 1), FAILED);
    assert_eq!((world.records(), world.held()), before);
    assert_eq!(
        (world.bytes().live, world.0.snapshot(SCOPE).live),
        (2 * SIZE, 2)
    );
    let failed = world.anomalies();
    let is_reported = |failed: &Anomaly| {
        matches!(failed, Anomaly::FailedFree(failed)
            if failed.record.is_some_and(|record| record.made.kind == Kind::Physical))
    };
    assert!(
        failed.len() == 2 && failed.iter().all(is_reported),
        "{failed:?}"
    );
    let strangers = World::new();
    strangers.0.close_scope(SCOPE);
    strangers.create(1);
    strangers.end_free(strangers.begin_release(handle(1), 1), FAILED);
    assert_eq!(
        strangers.0.snapshot(ScopeId::NONE).unowned,
        1,
        "put back, not created again"
    );
}

#[test]
fn two_calls_in_flight_on_one_object_may_end_in_any_way() {
    for (release, unmap) in [(0, 0), (0, FAILED), (FAILED, 0), (FAILED, FAILED)] {
        for release_ends_first in [true, false] {
            let world = World::new();
            world.create(HANDLE);
            world.map(ADDRESS, HANDLE);
            let mut calls = [
                (world.begin_release(handle(HANDLE), 1), release),
                (world.begin_unmap(ADDRESS, SIZE), unmap),
            ];
            assert!(world.records().is_empty());
            if !release_ends_first {
                calls.reverse();
            }
            for (ticket, error) in calls {
                world.end_free(ticket, error);
            }
            let left = (u64::from(release != 0), u64::from(unmap != 0));
            if left == (0, 0) {
                assert!(world.is_empty());
            } else {
                assert_eq!(world.held(), [left]);
                assert_eq!(
                    (world.bytes().live, world.0.snapshot(SCOPE).live),
                    (SIZE, 1)
                );
            }
        }
    }
}

#[test]
fn a_range_mapped_by_another_thread_before_its_unmap_returns_keeps_its_new_map() {
    let world = World::new();
    world.create(1);
    world.map(ADDRESS, 1);
    world.release_handle(1);
    let unmap = world.begin_unmap(ADDRESS, SIZE);
    world.create(2);
    world.map(ADDRESS, 2);
    world.end_free(unmap, 0);
    assert_eq!(world.held(), [(1, 1)]);
    world.release_handle(2);
    world.unmap(ADDRESS, SIZE);
    assert!(world.is_empty());
}

#[test]
fn a_handle_issued_again_before_its_release_returns_keeps_its_new_object() {
    let world = World::new();
    world.create(HANDLE);
    let release = world.begin_release(handle(HANDLE), 1);
    world.create(HANDLE);
    world.end_free(release, 0);
    assert_eq!(world.held(), [(1, 0)]);
    assert_eq!(world.anomalies(), []);
    world.release_handle(HANDLE);
    assert!(world.is_empty());
}

#[test]
fn of_two_concurrent_unmaps_or_releases_only_one_counts() {
    // The call that removed the hold fails, and the other one succeeds.
    for winner_ends_first in [true, false] {
        for unmaps in [true, false] {
            let world = World::new();
            world.create(HANDLE);
            if unmaps {
                world.map(ADDRESS, HANDLE);
                world.release_handle(HANDLE);
            }
            let begin = || {
                if unmaps {
                    world.begin_unmap(ADDRESS, SIZE)
                } else {
                    world.begin_release(handle(HANDLE), 1)
                }
            };
            let (loser, winner) = (begin(), begin());
            if winner_ends_first {
                world.end_free(winner, 0);
                world.end_free(loser, FAILED);
            } else {
                world.end_free(loser, FAILED);
                world.end_free(winner, 0);
            }
            assert!(
                world.is_empty(),
                "winner first: {winner_ends_first}, unmaps: {unmaps}"
            );
        }
    }
}

#[test]
fn memory_from_before_the_harness_is_not_invented() {
    let world = World::new();
    world.map(ADDRESS, HANDLE);
    world.0.apply(&Event::HandleRetained {
        handle: HANDLE,
        address: ADDRESS,
    });
    world.unmap(ADDRESS, SIZE);
    world.release_handle(HANDLE);
    assert!(world.is_empty());
    assert_eq!(world.anomalies(), []);
    assert_eq!(world.0.unknown_frees(), 2);
}

#[test]
fn physical_memory_outlives_every_context() {
    let world = World::new();
    world.create(HANDLE);
    world.import(HANDLE + 1);
    world.0.apply(&Event::ContextDestroyed {
        context: ContextUid(1),
        cause: ContextEnd::Reset,
        caller: caller(SCOPE),
    });
    assert_eq!(world.records().len(), 2);
    assert_eq!(world.anomalies(), []);
}

#[test]
fn earlier_memory_that_a_scope_releases_gives_no_credit_but_is_counted() {
    let world = World::new();
    world.create(HANDLE);
    world.map(ADDRESS, HANDLE);
    let inner = ScopeId(2);
    world.0.open_scope(inner);
    let caller = caller(inner);
    world.release_handle(HANDLE);
    let unmap = world.begin(&Event::UnmapBegan {
        address: ADDRESS,
        bytes: SIZE,
        caller,
    });
    world.end_free(unmap, 0);
    let returned = world.0.close_scope(inner);
    assert_eq!((returned.count, returned.bytes), (1, SIZE));
}

#[test]
fn a_multicast_object_is_counted_and_released_like_memory() {
    let world = World::new();
    let made = Creation {
        place: Place::cuda(0),
        ..shared(Space::PhysicalHandle, Kind::Multicast, HANDLE, 0)
    };
    world.0.apply(&Event::Created(made));
    world.map(ADDRESS, HANDLE);
    assert_eq!(world.0.handles(Place::cuda(0)).live, 1);
    world.release_handle(HANDLE);
    world.unmap(ADDRESS, SIZE);
    assert!(world.is_empty());
    assert_eq!(world.0.handles(Place::cuda(0)).live, 0);
}

#[test]
fn threads_that_map_and_release_at_once_lose_and_invent_nothing() {
    let world = World::new();
    // Miri takes a thousand times as long, and chooses the order of the threads' steps itself.
    let rounds = if cfg!(miri) { 5 } else { 500 };
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let world = &world;
            threads.spawn(move || {
                for round in 0..rounds {
                    // Each thread reuses a few handles in turn, as the driver does.
                    let (value, address) = (thread * 1000 + round % 3, ADDRESS + thread * SIZE);
                    world.create(value);
                    world.map(address, value);
                    let error = if round % 5 == 0 { FAILED } else { 0 };
                    world.end_free(world.begin_release(handle(value), 1), error);
                    world.unmap(address, SIZE);
                    if error != 0 {
                        world.release_handle(value);
                    }
                }
            });
        }
    });
    assert!(world.is_empty());
}

#[test]
fn memory_that_stays_mapped_is_not_freed_by_its_release() {
    let world = World::new();
    world.0.free_log.begin(&[SCOPE], std::time::Instant::now);
    world.create(HANDLE);
    world.map(ADDRESS, HANDLE);
    world.release_handle(HANDLE);
    assert!(world.0.free_log.frees(|_| true).is_empty());
    world.unmap(ADDRESS, SIZE);
    assert_eq!(world.0.free_log.frees(|_| true).len(), 1);
}

#[test]
fn a_handle_that_names_another_object_was_released_unseen() {
    let world = World::new();
    world.create(HANDLE);
    world.map(ADDRESS, HANDLE);
    world.create(HANDLE + 1);
    // Nothing is mapped just after the end of the range.
    for (address, held) in [(ADDRESS + SIZE, 2), (ADDRESS + SIZE - 1, 1)] {
        let handle = HANDLE + 1;
        world.0.apply(&Event::HandleRetained { handle, address });
        assert_eq!(world.held().len(), held);
    }
    assert_eq!(world.held(), [(2, 1)]);
    assert!(matches!(
        world.anomalies()[..],
        [Anomaly::Overwritten { .. }]
    ));
}

#[test]
fn memory_that_is_mapped_over_was_unmapped_unseen() {
    let world = World::new();
    for value in [1, 2] {
        world.create(HANDLE + value);
        world.map(ADDRESS + (value - 1) * SIZE, HANDLE + value);
        world.release_handle(HANDLE + value);
    }
    world.create(HANDLE);
    world.map(ADDRESS + SIZE / 2, HANDLE);
    assert_eq!(world.held(), [(1, 1)]);
    let reported = world.anomalies();
    assert_eq!(reported.len(), 2, "{reported:?}");
}

#[test]
fn the_late_end_of_a_call_that_found_nothing_frees_nothing_new() {
    let world = World::new();
    let release = world.begin_release(handle(HANDLE), 1);
    let unmap = world.begin_unmap(ADDRESS, SIZE);
    world.create(HANDLE);
    world.map(ADDRESS, HANDLE);
    world.end_free(release, 0);
    world.end_free(unmap, 0);
    assert_eq!(world.held(), [(1, 1)]);
}

#[test]
fn of_two_concurrent_unmaps_the_successful_one_keeps_the_neighbours() {
    let world = World::new();
    world.create(HANDLE);
    for range in 0..3 {
        world.map(ADDRESS + range * SIZE, HANDLE);
    }
    let unmap = || world.begin_unmap(ADDRESS + SIZE, SIZE);
    let [first, second] = [unmap(), unmap()];
    world.end_free(first, FAILED);
    world.end_free(second, 0);
    assert_eq!(world.held(), [(1, 2)]);
}
