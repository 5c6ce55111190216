//! Records that several threads create and free.

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::mpsc;
use shuttle::thread;

use super::world::{CONTEXT, REFUSED, World, caller};
use crate::ledger::event::{Caller, ContextUid, Creation, Key, Space};
use crate::ledger::{Event, Kind, Layer, Ledger, Place, ScopeId, StackId};

const FIRST: ScopeId = ScopeId(1);
const SECOND: ScopeId = ScopeId(2);
const OTHER_CONTEXT: ContextUid = ContextUid(2);

/// Two tests run at once, one with a leak and one without. Each has a thread and a helper thread.
/// Each is judged at its own end, whatever the other does at that moment. The driver immediately
/// reuses an address that one test frees for the other.
pub fn a_leaking_test_and_a_clean_one() {
    let world = World::new(&[]);
    let test = |number: u32, scope: ScopeId, leaks: usize| {
        world.ledger.open_scope(scope);
        thread::scope(|threads| {
            threads.spawn(|| {
                let helper = caller(number + 10, scope);
                world.free(world.allocate(helper), helper);
            });
            let own = caller(number, scope);
            let freed = world.allocate(own);
            for _ in 0..leaks {
                world.allocate(own);
            }
            world.free(freed, own);
        });
        assert_eq!(
            world.ledger.snapshot(scope).live as usize,
            leaks,
            "the count"
        );
        assert_eq!(world.records_of(scope).len(), leaks, "the records");
        let returned = world.ledger.close_scope(scope);
        assert_eq!(returned.count, 0, "nothing was another's");
    };
    thread::scope(|threads| {
        threads.spawn(|| test(1, FIRST, 1));
        threads.spawn(|| test(2, SECOND, 0));
    });
    world.agrees(&[]);
}

/// A test has left something, and two of its threads still run: one allocates memory, which the
/// other frees. The test is never judged clean.
pub fn a_leaking_test_s_threads_go_on() {
    let world = World::new(&[FIRST]);
    world.allocate(caller(3, FIRST));
    let (hand_over, handed_over) = mpsc::channel();
    thread::scope(|threads| {
        threads.spawn(|| {
            let address = world.allocate(caller(1, FIRST));
            hand_over.send(address).unwrap();
        });
        threads.spawn(|| {
            let address = handed_over.recv().unwrap();
            assert_eq!(world.free(address, caller(2, FIRST)), 0);
        });
        assert_ne!(world.ledger.snapshot(FIRST).live, 0);
        assert_ne!(world.ledger.live(Kind::Linear), 0);
    });
    world.agrees(&[FIRST]);
}

/// Two tests run one after the other. The second begins while a thread that the first has left
/// behind is still running.
pub fn a_thread_outlives_its_test() {
    let world = World::new(&[FIRST]);
    let next = SECOND;
    thread::scope(|threads| {
        threads.spawn(|| {
            let late = caller(1, FIRST);
            let address = world.allocate(late);
            world.allocate(late);
            world.free(address, late);
        });
        world.ledger.close_scope(FIRST);
        world.ledger.open_scope(next);
        let own = caller(17, next);
        let freed = world.allocate(own);
        world.allocate(own);
        world.free(freed, own);
        assert_eq!(world.ledger.snapshot(next).live, 1);
    });
    world.agrees(&[next]);
}

/// Threads allocate, free, fail to free, and record frees into a graph, in random order.
pub fn anything_at_once() {
    let world = World::new(&[FIRST, SECOND]);
    thread::scope(|threads| {
        for number in 1..=3 {
            let world = &world;
            threads.spawn(move || do_anything(world, caller(number, ScopeId(number % 3))));
        }
    });
    world.agrees(&[FIRST, SECOND]);
}

fn do_anything(world: &World, caller: Caller) {
    let mut own = Vec::new();
    for _ in 0..4 {
        let any = |own: &[u64]| thread_rng().gen_range(0..own.len());
        match thread_rng().gen_range(0..5) {
            1 | 2 if !own.is_empty() => {
                let address = own.swap_remove(any(&own));
                assert_eq!(world.free(address, caller), 0);
            }
            3 if !own.is_empty() => world.fail_to_free(own[any(&own)], caller),
            4 if !own.is_empty() => world.record_free(own[any(&own)], caller),
            _ => own.push(world.allocate(caller)),
        }
    }
}

/// A thread of one test allocates, and a thread of another test frees. Neither test is credited
/// with the work of the other.
pub fn freed_by_another_test() {
    let world = World::new(&[FIRST, SECOND]);
    let (hand_over, handed_over) = mpsc::channel();
    thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..3 {
                let address = world.allocate(caller(1, FIRST));
                hand_over.send(address).unwrap();
            }
        });
        threads.spawn(|| {
            for _ in 0..2 {
                let address = handed_over.recv().unwrap();
                assert_eq!(world.free(address, caller(2, SECOND)), 0);
            }
        });
    });
    world.agrees(&[FIRST, SECOND]);
    assert_eq!(world.ledger.close_scope(FIRST).count, 0);
    assert_eq!(world.ledger.close_scope(SECOND).count, 0);
}

/// Two threads free the same address at once, and the driver refuses one of the frees.
pub fn freed_twice_at_once() {
    let world = World::new(&[FIRST]);
    let address = world.allocate(caller(1, FIRST));
    thread::scope(|threads| {
        let free = |number| world.free(address, caller(number, FIRST));
        let first = threads.spawn(move || free(1));
        let second = threads.spawn(move || free(2));
        let errors = [first.join().unwrap(), second.join().unwrap()];
        assert!(errors.contains(&0) && errors.contains(&REFUSED));
    });
    world.agrees(&[FIRST]);
}

/// A context ends while other threads allocate and free in it.
pub fn a_context_ends() {
    let world = World::new(&[FIRST, SECOND]);
    let old = world.allocate_in(OTHER_CONTEXT, caller(1, FIRST));
    let old = old.expect("the context is there still");
    world.allocate(caller(1, FIRST));
    thread::scope(|threads| {
        threads.spawn(|| world.allocate_in(OTHER_CONTEXT, caller(2, FIRST)));
        threads.spawn(|| world.free(old, caller(3, FIRST)));
        threads.spawn(|| world.end_context(OTHER_CONTEXT, caller(4, SECOND)));
    });
    world.agrees(&[FIRST, SECOND]);
}

/// Several threads intern the same stacks. Each stack has one ID, whichever thread interns it
/// first.
pub fn one_stack_from_several_threads() {
    let ledger = Ledger::new();
    let stacks = ledger.stacks();
    thread::scope(|threads| {
        let meet = |frame: usize| [stacks.intern(&[7]), stacks.intern(&[frame, 8])];
        let first = threads.spawn(move || meet(1));
        let second = threads.spawn(move || meet(2));
        let [first, second] = [first.join().unwrap(), second.join().unwrap()];
        assert_eq!(first[0], second[0]);
        assert_ne!(first[1], second[1]);
        assert_eq!(stacks.frames(first[0]), [7]);
        assert_eq!(stacks.frames(second[1]), [2, 8]);
    });
}

/// A test with a budget allocates on two threads, alongside another test. The figures contain every
/// allocation of the test and none of the other test, and the peak is what was live at once.
pub fn a_metered_test_and_another() {
    let world = World::new(&[FIRST, SECOND]);
    world.ledger.meters().begin(FIRST, Layer::DRIVER);
    thread::scope(|threads| {
        for number in [1, 2] {
            let (world, own) = (&world, caller(number, FIRST));
            threads.spawn(move || {
                let freed = world.allocate(own);
                world.allocate(own);
                world.free(freed, own);
            });
        }
        threads.spawn(|| world.allocate(caller(3, SECOND)));
    });
    let live: u64 = world
        .records_of(FIRST)
        .iter()
        .map(|record| record.made.bytes)
        .sum();
    let taken = world.ledger.meters().end(FIRST);
    let [taken] = &taken[..] else {
        panic!("at one place: {taken:?}");
    };
    assert_eq!(taken.made, 4);
    let at_peak: u64 = taken.at_peak.iter().map(|site| site.bytes).sum();
    assert_eq!(at_peak, taken.peak, "who was there at the peak");
    assert!(taken.peak >= live, "{taken:?}, and {live} at the end");
    world.agrees(&[FIRST, SECOND]);
}

/// Two threads open and close the same memory of another process, which a third thread also has
/// open. The record ends with the last close, and no close is reported as a close of unknown
/// memory.
pub fn opened_by_several_and_closed_by_each() {
    let ledger = Ledger::new();
    ledger.open_scope(FIRST);
    let open = |thread| {
        ledger.apply(&Event::Created(Creation {
            key: OPENED,
            kind: Kind::Imported,
            layer: Layer::DRIVER,
            place: Place::cuda(0),
            bytes: 0,
            context: CONTEXT,
            stream: 0,
            pool: 0,
            caller: caller(thread, FIRST),
        }));
    };
    let close = |thread| {
        let began = Event::ReleaseBegan {
            key: OPENED,
            count: 1,
            graph: None,
            caller: caller(thread, FIRST),
        };
        let ticket = ledger.apply(&began).expect("a ticket");
        thread::yield_now();
        ledger.apply(&Event::FreeEnded {
            ticket,
            error: 0,
            stack: StackId::default(),
        });
    };
    open(1);
    thread::scope(|threads| {
        for number in [2, 3] {
            let (open, close) = (&open, &close);
            threads.spawn(move || {
                open(number);
                thread::yield_now();
                close(number);
            });
        }
    });
    assert_eq!(
        ledger.snapshot(FIRST).live,
        1,
        "the first one has it open still"
    );
    assert!(ledger.get(&OPENED).is_some());
    close(1);
    assert_eq!(ledger.snapshot(FIRST).live, 0);
    assert!(ledger.get(&OPENED).is_none());
    assert_eq!(ledger.unknown_frees(), 0);
    assert!(!ledger.frees_in_flight());
}

/// Memory of another process.
const OPENED: Key = Key::new(Space::IpcPointer, 0x0be);
