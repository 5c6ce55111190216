//! Tests of a ledger that several threads use.

use super::*;
use crate::ledger::event::ThreadNumber;
use crate::ledger::shard::began;

impl World {
    fn of_thread(thread: u32) -> Caller {
        Caller {
            thread: ThreadNumber(thread),
            ..caller(SCOPE)
        }
    }

    fn allocate_on(&self, thread: u32, address: u64, bytes: u64) {
        self.0.apply(&Event::Created(Creation {
            caller: Self::of_thread(thread),
            ..creation(Kind::Linear, address, bytes)
        }));
    }

    fn free_on(&self, thread: u32, address: u64) {
        let ticket = self.0.apply(&Event::FreeBegan {
            key: key(address),
            caller: Self::of_thread(thread),
        });
        self.end_free(ticket.expect("a release has a ticket"), 0);
    }
}

#[test]
fn the_peak_counts_what_all_threads_held_at_once() {
    let world = World::new();
    for thread in 0..40 {
        world.allocate_on(thread, 0x1000, 100);
        // The memory is freed by the same thread, or by another one.
        world.free_on(thread + [0, 16, 1][thread as usize % 3], 0x1000);
    }
    assert_eq!(world.bytes(), Counted { live: 0, peak: 100 });
    // The allocations are at other places in the table, but have no more bytes than before.
    for thread in 0..4 {
        world.allocate_on(thread, u64::from(thread), 25);
    }
    for thread in 0..4 {
        world.free_on(thread, u64::from(thread));
    }
    world.allocate_on(9, 0x2000, 110);
    let raised = Counted {
        live: 110,
        peak: 110,
    };
    assert_eq!(world.bytes(), raised);
    world.free_on(3, 0x2000);
    world.0.watch(true);
    assert_eq!(world.bytes(), Counted::default());
}

#[test]
fn figures_cover_all_threads() {
    let world = World::new();
    let before = world.0.now();
    for thread in 0..40 {
        world.allocate_on(thread, u64::from(thread), 8);
    }
    for address in 0..30 {
        world.free_on(7, address);
    }
    assert_eq!(world.0.snapshot(SCOPE).live, 10);
    assert_eq!(world.0.live(Kind::Linear), 10);
    assert_eq!(
        world.bytes(),
        Counted {
            live: 80,
            peak: 320
        }
    );
    assert_eq!(world.0.now() - before, 70, "a number for each event");
}

#[test]
fn a_moment_separates_what_every_thread_did_before_from_what_comes_after() {
    let world = World::new();
    let sequence = |address| world.0.get(&key(address)).unwrap().sequence;
    for address in 0..100 {
        world.allocate_on(3, address, 8);
    }
    let now = world.0.now();
    assert_eq!(world.0.now(), now, "nothing has happened");
    assert!((0..100).all(|address| sequence(address) < now));
    for thread in 0..40 {
        let address = 0x1000 + u64::from(thread);
        world.allocate_on(thread, address, 8);
        assert!(sequence(address) >= now, "on thread {thread}");
    }
    assert_ne!(world.0.now(), now);
}

#[test]
fn an_allocation_is_newer_than_the_last_release_of_its_address() {
    let world = World::new();
    // The first thread has caused many more events than the thread that gets the address
    // afterwards.
    for address in 0..100 {
        world.allocate_on(1, address, 8);
    }
    let ticket = world.0.apply(&Event::FreeBegan {
        key: key(0),
        caller: World::of_thread(1),
    });
    let ticket = ticket.unwrap();
    world.allocate_on(2, 0, 16);
    assert!(world.0.get(&key(0)).unwrap().sequence > began(ticket));
    world.end_free(ticket, 0);
    assert_eq!(world.0.get(&key(0)).unwrap().made.bytes, 16);
}
