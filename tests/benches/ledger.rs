//! What the ledger costs without a GPU, and what threads cost each other in it:
//! `cargo bench -p gpu-leak-tests --bench ledger`. A machine with fewer cores than threads measures
//! its scheduler instead.

use std::sync::atomic::{AtomicU64, Ordering};

use divan::Bencher;
use gpu_leak_check::ledger::event::{
    Caller, ContextUid, Creation, Event, Key, Space, ThreadNumber,
};
use gpu_leak_check::ledger::{Kind, Layer, Ledger, Place, ScopeId, StackId};

fn main() {
    divan::main();
}

const THREADS: [usize; 2] = [1, 16];
const SCOPE: ScopeId = ScopeId(1);
/// Where all threads allocate: the worst case for what they share.
const SITE: [usize; 24] = [0x40_1000; 24];

/// An address, the same each time for one thread: an allocator hands out what has just come back.
fn address() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static MINE: u64 = NEXT.fetch_add(1, Ordering::Relaxed) << 21;
    }
    MINE.with(|mine| *mine)
}

/// An allocation and its release, as the driver's callbacks tell them.
fn pair(ledger: &Ledger, stack: StackId) {
    let key = Key {
        space: Space::DevicePointer,
        value: address(),
    };
    let caller = Caller {
        thread: ThreadNumber(1),
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

fn ledger() -> Ledger {
    let ledger = Ledger::new();
    ledger.open_scope(SCOPE);
    ledger
}

#[divan::bench(threads = THREADS, sample_size = 2000)]
fn pair_without_stack(bencher: Bencher<'_, '_>) {
    let ledger = ledger();
    bencher.bench(|| pair(&ledger, StackId::default()));
}

/// With the search for a stack of 24 frames, but not the walk that finds them.
#[divan::bench(threads = THREADS, sample_size = 2000)]
fn pair_with_stack(bencher: Bencher<'_, '_>) {
    let ledger = ledger();
    bencher.bench(|| pair(&ledger, ledger.stacks().intern(&SITE)));
}
