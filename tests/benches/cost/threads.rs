//! What threads cost each other in the ledger, of a source made up: needs no GPU. A machine with
//! fewer cores than threads measures its scheduler instead.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use gpu_leak_check::ledger::event::{
    Caller, ContextUid, Creation, Event, Key, Space, ThreadNumber,
};
use gpu_leak_check::ledger::{Kind, Layer, Ledger, Place, ScopeId, StackId};

use crate::samples::Samples;

/// How many threads allocate at once.
pub(crate) const THREADS: [u32; 5] = [1, 2, 4, 8, 16];
/// Pairs of each thread in a block: some milliseconds.
const PAIRS: u32 = 50_000;
const SCOPE: ScopeId = ScopeId(1);
/// All threads allocate at one line, on one device: the worst case for what they share.
const SITE: [usize; 24] = [0x40_1000; 24];

/// Nanoseconds a pair, for each number of threads.
pub(crate) fn measure(blocks: usize) -> Samples {
    let ledger = Ledger::new();
    ledger.open_scope(SCOPE);
    let mut samples = Samples::new(THREADS.len());
    for _ in 0..blocks {
        for (variant, threads) in THREADS.into_iter().enumerate() {
            samples.add(variant, block(&ledger, threads));
        }
    }
    samples
}

/// The mean over the threads, each by its own clock.
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

/// An allocation and its release, as the driver's callbacks tell them.
fn pair(ledger: &Ledger, thread: ThreadNumber, stack: StackId) {
    let key = Key {
        space: Space::DevicePointer,
        value: u64::from(thread.0) << 21,
    };
    let caller = Caller {
        thread,
        scope: SCOPE,
        stack: StackId::default(),
    };
    ledger.apply(&Event::Created(Creation {
        key,
        kind: Kind::StreamOrdered,
        layer: Layer::DRIVER,
        place: Place::cuda(0),
        bytes: 512,
        context: ContextUid(1),
        stream: 0,
        pool: 0,
        caller: Caller { stack, ..caller },
    }));
    let ticket = ledger.apply(&Event::ReleaseBegan { key, caller });
    ledger.apply(&Event::ReleaseEnded {
        ticket: ticket.expect("a release has a ticket"),
        error: 0,
        stack: StackId::default(),
    });
}
