//! Threads without a scope change a sum without an owner while a check runs. The check must then
//! not assume that it is alone, and must not fail because of the sum. One such thread is being
//! started while the check takes its baseline. Another exists from the start, alongside a thread
//! that the driver started inside a check. A third starts while the check reads what is left. A
//! thread of the check itself does not count as such a thread, however slowly it starts.
//!
//! The program runs without libtest, because the thread that starts others must be the process's
//! first one. The harness assumes that any other thread may be working.

#![expect(unsafe_code, reason = "implements an allocator that delays threads")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use gpu_leak_check::observe::Source;
use gpu_leak_check::probe::{Probe, Segment};
use gpu_leak_check::{Check, Place, Scope};

const ROUNDS: usize = 1000;

/// An allocator that reports only the sum of its bytes.
struct Silent;

static SUM: AtomicU64 = AtomicU64::new(4096);
/// The number of readings left until one of them starts a thread without a scope.
static READINGS: AtomicI64 = AtomicI64::new(0);

impl Probe for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn places(&self) -> Vec<Place> {
        vec![Place::named("silent:0")]
    }

    fn allocated(&self, _: Place) -> u64 {
        if READINGS.fetch_sub(1, Ordering::SeqCst) == 1 {
            STARTS.store(1, Ordering::SeqCst);
            wait_for(1, &STARTED);
            REPORTING.freed(ADDRESS);
        }
        SUM.load(Ordering::SeqCst)
    }

    fn reserved(&self, _: Place) -> u64 {
        0
    }

    fn segments(&self, _: Place) -> Vec<Segment> {
        Vec::new()
    }

    fn empty_cache(&self, _: Place) {}
}

gpu_leak_check::probe!(&Silent);

/// The current round.
static BEGINS: AtomicUsize = AtomicUsize::new(0);
/// The last round in which the thread without a scope changed the sum.
static MOVED: AtomicUsize = AtomicUsize::new(0);

fn wait_for(round: usize, reached: &AtomicUsize) {
    while reached.load(Ordering::SeqCst) < round {
        thread::yield_now();
    }
}

/// Whether another thread is to start the thread without a scope, and whether it has done so. The
/// probe cannot start it, because a thread that a probe starts belongs to its allocator.
static STARTS: AtomicUsize = AtomicUsize::new(0);
static STARTED: AtomicUsize = AtomicUsize::new(0);

static REPORTING: Source = Source::new("reporting", &[]);
const ADDRESS: u64 = 0x7100_0000_0000;

/// Reports a block, because a check without any event has measured nothing.
fn borrow() {
    REPORTING.allocated(Place::named("reporting:0"), ADDRESS, 64);
    REPORTING.freed(ADDRESS);
}

fn check(round: usize) {
    BEGINS.store(round, Ordering::SeqCst);
    let check = Check::new("beside_a_thread_without_a_scope").settle(Duration::from_micros(1));
    check.run_once(|| {
        borrow();
        wait_for(round, &MOVED);
    });
}

/// The work that a thread without a scope does in each round.
fn move_the_sum(round: usize) {
    SUM.fetch_add(4096, Ordering::SeqCst);
    MOVED.store(round, Ordering::SeqCst);
}

/// In each round, a thread starts at about the moment when the round's check begins.
fn beside_a_thread_that_starts() {
    let checks = thread::spawn(|| (1..=ROUNDS).for_each(check));
    for round in 1..=ROUNDS {
        wait_for(round, &BEGINS);
        // Varies the moment, during the beginning of the check, at which the thread starts.
        for _ in 0..round * 7919 % 20_000 {
            std::hint::spin_loop();
        }
        let unrelated = thread::spawn(move || move_the_sum(round));
        unrelated.join().expect("no panic");
        if checks.is_finished() {
            break;
        }
    }
    checks
        .join()
        .expect("no check fails alongside a new thread");
}

/// The first check makes the driver start a thread, as the first call of a process does.
fn beside_a_thread_and_the_drivers() {
    const ROUNDS_OF_ONE: RangeInclusive<usize> = ROUNDS + 1..=ROUNDS + 20;
    let unrelated = thread::spawn(|| {
        for round in ROUNDS_OF_ONE {
            wait_for(round, &BEGINS);
            move_the_sum(round);
        }
    });
    let checks = thread::spawn(|| {
        Check::new("starts_the_driver").run_once(|| {
            borrow();
            let drivers = thread::Builder::new().name("cuda-EvtHandlr".to_owned());
            drivers.spawn(thread::park).expect("a thread");
        });
        ROUNDS_OF_ONE.for_each(check);
    });
    checks
        .join()
        .expect("no check fails alongside an old thread");
    unrelated.join().expect("no panic");
}

/// The check reads the sum when its body has ended, when it looks for leaks, and again if it has
/// found any. Before each reading, it verifies that no other thread could have changed the sum.
fn beside_a_thread_that_starts_during_reading() {
    // A thread of the driver does not count as one that may change the sum.
    let starter = thread::Builder::new().name("cuda-EvtHandlr".to_owned());
    let start = || {
        wait_for(1, &STARTS);
        let unrelated = thread::spawn(|| SUM.fetch_add(4096, Ordering::SeqCst));
        unrelated.join().expect("no panic");
        STARTED.store(1, Ordering::SeqCst);
    };
    starter.spawn(start).expect("a thread");
    let checks = || {
        Check::new("reads_beside_a_new_thread").run_once(|| {
            REPORTING.allocated(Place::named("reporting:0"), ADDRESS, 64);
            READINGS.store(3, Ordering::SeqCst);
        });
    };
    let check = thread::spawn(checks).join();
    check.expect("the new thread's 4096 B are not the check's");
    let readings_left = READINGS.load(Ordering::SeqCst);
    assert!(readings_left <= 0, "the sum was read three times");
}

/// Delays the next new thread, if [`DELAYS`] is set. A new thread frees its start argument before
/// the harness knows that it runs.
struct DelayingAllocator;

static DELAYS: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IS_NEW: Cell<bool> = const { Cell::new(true) };
}

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for DelayingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        if IS_NEW.get() && DELAYS.swap(false, Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(100));
        }
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(address, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: DelayingAllocator = DelayingAllocator;

/// What the scope leaves is a leak, because only the check's own thread is being started.
fn beside_an_own_thread_that_starts_slowly() {
    Check::new("starts_a_slow_thread").run_once(|| {
        borrow();
        IS_NEW.set(false);
        DELAYS.store(true, Ordering::SeqCst);
        let slow = thread::spawn(|| ());
        let scope = Scope::open("leaves_a_sum");
        SUM.fetch_add(4096, Ordering::SeqCst);
        let report = scope.finish();
        let is_failure = report.findings.iter().any(|finding| finding.is_failure());
        assert!(is_failure, "nobody else could take the 4096 B: {report:?}");
        SUM.fetch_sub(4096, Ordering::SeqCst);
        slow.join().expect("no panic");
        assert!(
            !DELAYS.load(Ordering::SeqCst),
            "a new thread frees something first"
        );
    });
}

fn main() {
    beside_an_own_thread_that_starts_slowly();
    beside_a_thread_that_starts();
    beside_a_thread_that_starts_during_reading();
    beside_a_thread_and_the_drivers();
}
