//! Contention between threads in the ledger, with a simulated source that needs no GPU. On a
//! machine with fewer cores than threads, the figures show the cost of the scheduler instead.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use gpu_leak_check::ledger::Ledger;
use gpu_leak_check::ledger::event::ThreadNumber;

use crate::pair::{SITE, ledger, pair};
use crate::samples::Samples;

/// The numbers of threads for which contention is measured.
pub(crate) const THREADS: [u32; 5] = [1, 2, 4, 8, 16];
/// The number of pairs that each thread makes in a block. A block takes some milliseconds.
const PAIRS: u32 = 50_000;

/// Returns the nanoseconds per pair, for each number of threads.
pub(crate) fn measure(blocks: usize) -> Samples {
    let ledger = ledger();
    let mut samples = Samples::new(THREADS.len());
    for _ in 0..blocks {
        for (variant, threads) in THREADS.into_iter().enumerate() {
            samples.add(variant, block(&ledger, threads));
        }
    }
    samples
}

/// Returns the mean of the threads' times. Each thread measures its own time.
fn block(ledger: &Ledger, threads: u32) -> f64 {
    let ready = Barrier::new(threads as usize);
    let one = |number| {
        let ready = &ready;
        move || {
            let stack = ledger.stacks().intern(&SITE);
            ready.wait();
            let start = Instant::now();
            (0..PAIRS).for_each(|_| pair(ledger, ThreadNumber(number), stack));
            start.elapsed().as_nanos() as f64 / f64::from(PAIRS)
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|number| scope.spawn(one(number)))
            .collect();
        let count = threads.len() as f64;
        let times = threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread"));
        times.sum::<f64>() / count
    })
}
