//! A thread that is being started while a check takes its baseline: the check does not take itself to
//! be alone, and fails nobody for what that thread adds to a sum without an owner.
//!
//! Without libtest, because the thread that starts others must be the first one: any other counts as
//! one that may be at work.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use gpu_leak_check::observe::Source;
use gpu_leak_check::probe::{Probe, Segment};
use gpu_leak_check::{Check, Place};

const ROUNDS: usize = 1000;

/// An allocator of which only the sum is known.
struct Silent;

static SUM: AtomicU64 = AtomicU64::new(4096);

impl Probe for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn places(&self) -> Vec<Place> {
        vec![Place::named("silent:0")]
    }

    fn allocated(&self, _: Place) -> u64 {
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

/// The round that begins, and the last one whose thread has moved the sum.
static BEGINS: AtomicUsize = AtomicUsize::new(0);
static MOVED: AtomicUsize = AtomicUsize::new(0);

fn wait_for(round: usize, reached: &AtomicUsize) {
    while reached.load(Ordering::SeqCst) < round {
        thread::yield_now();
    }
}

/// Something is seen, or nothing would be measured.
fn borrow() {
    static REPORTING: Source = Source::new("reporting", &[]);
    const ADDRESS: u64 = 0x7100_0000_0000;
    REPORTING.allocated(Place::named("reporting:0"), ADDRESS, 64);
    REPORTING.freed(ADDRESS);
}

fn run_checks() {
    for round in 1..=ROUNDS {
        BEGINS.store(round, Ordering::SeqCst);
        let check = Check::new("beside_a_thread_that_starts").settle(Duration::from_micros(1));
        check.run_once(|| {
            borrow();
            wait_for(round, &MOVED);
        });
    }
}

fn main() {
    let checks = thread::spawn(run_checks);
    for round in 1..=ROUNDS {
        wait_for(round, &BEGINS);
        // So that the thread starts at another moment of each check's beginning.
        for _ in 0..round * 7919 % 20_000 {
            std::hint::spin_loop();
        }
        let stranger = thread::spawn(move || {
            SUM.fetch_add(4096, Ordering::SeqCst);
            MOVED.store(round, Ordering::SeqCst);
        });
        stranger.join().expect("no panic");
        if checks.is_finished() {
            break;
        }
    }
    checks
        .join()
        .expect("no check fails for what a stranger did");
}
