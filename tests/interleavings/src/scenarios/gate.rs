//! Checks that wait at the gate, or are inside.

use std::panic::{catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::sync::Barrier;
use shuttle::thread;

use crate::gate::{Gate, Manner, Turn};
use crate::sync::{waits, waits_anew};

use Manner::{Exclusive, Parallel};

/// The checks that are inside: those that the gate has admitted and that have not left yet. The
/// checker does not interleave these types of `std`.
#[derive(Default)]
struct Inside {
    all: AtomicUsize,
    exclusive: AtomicUsize,
    /// The number of times that a check was admitted while another was inside.
    overlaps: AtomicUsize,
}

impl Inside {
    /// Does the work of an admitted check. Returns whether another check was inside at the same
    /// time.
    fn work(&self, manner: Manner) -> bool {
        let exclusive = usize::from(manner == Exclusive);
        let overlaps = self.overlaps.load(Ordering::SeqCst);
        let others = self.all.fetch_add(1, Ordering::SeqCst);
        self.overlaps.fetch_add(others.min(1), Ordering::SeqCst);
        self.exclusive.fetch_add(exclusive, Ordering::SeqCst);
        thread::yield_now();
        let met = self.overlaps.load(Ordering::SeqCst) != overlaps;
        self.exclusive.fetch_sub(exclusive, Ordering::SeqCst);
        self.all.fetch_sub(1, Ordering::SeqCst);
        met
    }

    /// Runs a check that waits for its turn. An exclusive check must not overlap any other, and a
    /// parallel one must not overlap an exclusive one.
    fn take_turn(&self, gate: &Gate, manner: Manner) {
        let turn = gate.enter(manner);
        assert_eq!(self.exclusive.load(Ordering::SeqCst), 0, "one was there");
        if manner == Exclusive {
            assert_eq!(self.all.load(Ordering::SeqCst), 0, "not alone");
        }
        let met = self.work(manner);
        assert_eq!(turn_met(&turn, met), met, "an overlap that the gate missed");
        if manner == Exclusive {
            assert!(!turn.met_another(), "an overlap that the gate made up");
        }
    }
}

/// Whether the gate has seen an overlap that `work` saw. The gate may also see an overlap with a
/// check that has not begun to work, or has finished.
fn turn_met(turn: &Turn<'_>, met: bool) -> bool {
    met && turn.met_another()
}

fn all_take_turns(manners: &[Manner]) {
    let (gate, inside) = (Gate::default(), Inside::default());
    thread::scope(|threads| {
        for manner in manners {
            threads.spawn(|| inside.take_turn(&gate, *manner));
        }
    });
}

/// Two exclusive checks arrive at once. They are admitted one at a time.
pub fn two_exclusive_checks() {
    all_take_turns(&[Exclusive, Exclusive]);
}

/// An exclusive check and a parallel one arrive at once.
pub fn an_exclusive_check_and_a_parallel_one() {
    all_take_turns(&[Exclusive, Parallel]);
}

/// Exclusive and parallel checks arrive at once, and all are admitted.
pub fn a_crowd() {
    all_take_turns(&[Exclusive, Parallel, Parallel, Exclusive, Parallel]);
}

/// Checks queue one after another while one check is inside. They are admitted in this order.
pub fn first_come_first_served() {
    waits_anew();
    let (gate, order) = (Gate::default(), Mutex::new(Vec::new()));
    let line = [Exclusive, Parallel, Exclusive, Parallel];
    thread::scope(|threads| {
        let first = gate.enter(Exclusive);
        for (number, manner) in line.into_iter().enumerate() {
            let (gate, order) = (&gate, &order);
            threads.spawn(move || {
                let _turn = gate.enter(manner);
                order.lock().unwrap().push(number);
            });
            while waits() <= number {
                thread::yield_now();
            }
        }
        drop(first);
    });
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
}

/// An exclusive check queues behind a parallel one. Parallel checks that arrive later could run
/// alongside the one inside, but wait for their turn.
pub fn no_check_overtakes_a_queued_one() {
    waits_anew();
    let (gate, order) = (Gate::default(), Mutex::new(Vec::new()));
    thread::scope(|threads| {
        let first = gate.enter(Parallel);
        for (number, manner) in [Exclusive, Parallel].into_iter().enumerate() {
            let (gate, order) = (&gate, &order);
            threads.spawn(move || {
                let _turn = gate.enter(manner);
                order.lock().unwrap().push(manner);
            });
            while waits() <= number {
                thread::yield_now();
            }
        }
        drop(first);
    });
    assert_eq!(*order.lock().unwrap(), [Exclusive, Parallel]);
}

/// Parallel checks queue behind an exclusive one. When it leaves, all of them are inside at once,
/// and none waits for another to leave.
pub fn queued_parallel_checks_are_inside_together() {
    waits_anew();
    let (gate, all_inside) = (Gate::default(), Barrier::new(3));
    thread::scope(|threads| {
        let first = gate.enter(Exclusive);
        for number in 0..3 {
            let (gate, all_inside) = (&gate, &all_inside);
            threads.spawn(move || {
                let _turn = gate.enter(Parallel);
                all_inside.wait();
            });
            while waits() <= number {
                thread::yield_now();
            }
        }
        drop(first);
    });
}

/// The body of an exclusive check starts a thread that begins a check of its own, and waits for the
/// thread, while other checks queue. The thread's check is admitted immediately. Both checks know
/// that they overlapped, and the checks in the queue overlap neither.
pub fn a_check_that_the_one_inside_waits_for() {
    let (gate, inside) = (Gate::default(), Inside::default());
    thread::scope(|threads| {
        threads.spawn(|| inside.take_turn(&gate, Exclusive));
        threads.spawn(|| inside.take_turn(&gate, Parallel));
        let outer = gate.enter(Exclusive);
        inside.exclusive.fetch_add(1, Ordering::SeqCst);
        inside.all.fetch_add(1, Ordering::SeqCst);
        let inner = threads.spawn(|| {
            let inner = gate.enter_now(Exclusive);
            thread::yield_now();
            assert!(inner.met_another());
        });
        inner.join().unwrap();
        assert!(outer.met_another());
        thread::yield_now();
        inside.all.fetch_sub(1, Ordering::SeqCst);
        inside.exclusive.fetch_sub(1, Ordering::SeqCst);
        drop(outer);
    });
}

/// A thread of the program begins a check at any moment, without waiting. That check and every
/// check that it overlaps know of the overlap, and all checks are admitted.
pub fn a_check_of_the_program_s_own() {
    let (gate, inside) = (Gate::default(), Inside::default());
    let take = |turn: Turn<'_>, manner| {
        let met = inside.work(manner);
        assert_eq!(turn_met(&turn, met), met, "an overlap that the gate missed");
    };
    thread::scope(|threads| {
        threads.spawn(|| take(gate.enter_now(Exclusive), Exclusive));
        threads.spawn(|| take(gate.enter(Exclusive), Exclusive));
        threads.spawn(|| take(gate.enter_now(Parallel), Parallel));
        threads.spawn(|| take(gate.enter(Parallel), Parallel));
    });
    assert!(!gate.enter(Exclusive).met_another(), "nobody is left");
}

/// A check panics inside. The other checks are admitted, and overlap no check.
pub fn a_panic_inside() {
    let (gate, inside) = (Gate::default(), Inside::default());
    thread::scope(|threads| {
        for manner in [Exclusive, Parallel] {
            let (gate, inside) = (&gate, &inside);
            threads.spawn(move || inside.take_turn(gate, manner));
        }
        threads.spawn(|| {
            // This does not use `panic!`, which would stop the checker.
            let body = || {
                let _turn = gate.enter(Exclusive);
                inside.work(Exclusive);
                resume_unwind(Box::new("on purpose"));
            };
            assert!(catch_unwind(std::panic::AssertUnwindSafe(body)).is_err());
        });
    });
}
