//! The cost of the ledger without a GPU, and contention between threads in it:
//! `cargo bench -p gpu-leak-tests --bench ledger`. On a machine with fewer cores than threads, the
//! figures show the cost of the scheduler instead.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

use divan::Bencher;
use gpu_leak_check::__bench::{exact_stack, stack};
use gpu_leak_check::ledger::StackId;
use gpu_leak_check::ledger::event::ThreadNumber;

use self::pair::{SCOPE, SITE, ledger, pair};

#[path = "cost/pair.rs"]
mod pair;

fn main() {
    divan::main();
}

const THREADS: [usize; 3] = [1, 2, 16];
/// The number of pairs in a sample. A sample takes some milliseconds, so that all threads are awake
/// for most of it.
const SAMPLE: u32 = 100_000;

/// Returns the number of the calling thread.
fn thread() -> ThreadNumber {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        static MINE: u32 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    ThreadNumber(MINE.with(|mine| *mine))
}

#[divan::bench(threads = THREADS, sample_size = SAMPLE, sample_count = 48)]
fn pair_without_stack(bencher: Bencher<'_, '_>) {
    let ledger = ledger();
    bencher.bench(|| pair(&ledger, thread(), StackId::default()));
}

/// The time includes the look-up of a stack of 24 frames, but not the stack walk.
#[divan::bench(threads = THREADS, sample_size = SAMPLE, sample_count = 48)]
fn pair_with_stack(bencher: Bencher<'_, '_>) {
    let ledger = ledger();
    bencher.bench(|| pair(&ledger, thread(), ledger.stacks().intern(&SITE)));
}

/// The stack depths at which a walk is measured. The functions in a stack are all different, as in
/// real programs, because unwinders cache by return address.
const WALKS: [usize; 2] = [24, 35];
const WALK_SAMPLE: u32 = 2_000;

type Step = fn(usize, &mut dyn FnMut());

#[inline(never)]
fn step<const N: usize>(left: usize, then: &mut dyn FnMut()) {
    if left == 0 {
        then();
    } else {
        STEPS[left - 1](left - 1, then);
    }
    // Makes the function different for each value, so that the compiler does not merge them.
    black_box(N);
}

macro_rules! steps {
    ($($n:literal)*) => { [$(step::<$n>),*] };
}

static STEPS: [Step; 35] = steps!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34
);

/// Calls `then` with a stack of this number of frames, including those of the benchmark.
fn at_depth(depth: usize, then: &mut dyn FnMut()) {
    let mut outside = 0;
    step::<35>(0, &mut || {
        outside = gpu_leak_check::ledger::live()
            .stacks()
            .frames(stack())
            .len()
    });
    step::<35>(depth.saturating_sub(outside), then);
}

fn walks(bencher: Bencher<'_, '_>, depth: usize, stack: fn() -> StackId) {
    let ledger = gpu_leak_check::ledger::live();
    ledger.open_scope(SCOPE);
    bencher.bench(|| {
        at_depth(depth, &mut || {
            for _ in 0..WALK_SAMPLE {
                pair(ledger, thread(), stack());
            }
        });
    });
    ledger.close_scope(SCOPE);
}

/// Each sample is [`WALK_SAMPLE`] pairs.
#[divan::bench(threads = THREADS, args = WALKS, sample_size = 1, sample_count = 96)]
fn pairs_with_a_walk(bencher: Bencher<'_, '_>, depth: usize) {
    walks(
        bencher.counter(divan::counter::ItemsCount::new(WALK_SAMPLE)),
        depth,
        stack,
    );
}

/// Like [`pairs_with_a_walk`], but with the unwinder that panics use.
#[divan::bench(threads = THREADS, args = WALKS, sample_size = 1, sample_count = 96)]
fn pairs_with_an_exact_walk(bencher: Bencher<'_, '_>, depth: usize) {
    walks(
        bencher.counter(divan::counter::ItemsCount::new(WALK_SAMPLE)),
        depth,
        exact_stack,
    );
}

#[divan::bench(args = WALKS, sample_size = 1, sample_count = 96)]
fn walk_alone(bencher: Bencher<'_, '_>, depth: usize) {
    let counted = bencher.counter(divan::counter::ItemsCount::new(WALK_SAMPLE));
    counted.bench(|| {
        at_depth(depth, &mut || {
            for _ in 0..WALK_SAMPLE {
                black_box(stack());
            }
        });
    });
}
