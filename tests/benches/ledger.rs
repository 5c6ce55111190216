//! What an event costs without a GPU, and what threads cost each other:
//! `cargo bench -p gpu-leak-tests --bench ledger`.

use std::sync::atomic::{AtomicU64, Ordering};

use divan::Bencher;
use gpu_leak_check::ledger::event::{
    Caller, ContextUid, Creation, Event, Key, Space, ThreadNumber,
};
use gpu_leak_check::ledger::{Kind, Layer, Ledger, Place, ScopeId, StackId};
use gpu_leak_check::observe::Source;

fn main() {
    divan::main();
}

const THREADS: [usize; 2] = [1, 16];
const SCOPE: ScopeId = ScopeId(1);

static SOURCE: Source = Source::new("benchmark", &[]);

/// An address that no other call of this process uses.
fn address() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static MINE: u64 = NEXT.fetch_add(1, Ordering::Relaxed) << 32 | 512;
    }
    MINE.with(|mine| *mine)
}

fn caller() -> Caller {
    Caller {
        thread: ThreadNumber(1),
        scope: SCOPE,
        stack: StackId::default(),
    }
}

/// An allocation and its release, as the driver's callbacks tell them.
#[divan::bench(threads = THREADS)]
fn allocated_and_freed(bencher: Bencher<'_, '_>) {
    let ledger = Ledger::new();
    ledger.open_scope(SCOPE);
    bencher.bench(|| {
        let key = Key {
            space: Space::DevicePointer,
            value: address(),
        };
        let caller = caller();
        ledger.apply(&Event::Created(Creation {
            key,
            kind: Kind::StreamOrdered,
            layer: Layer::DRIVER,
            place: Place::cuda(0),
            bytes: 512,
            context: ContextUid(1),
            stream: 0,
            pool: 0,
            caller,
        }));
        let ticket = ledger.apply(&Event::ReleaseBegan { key, caller });
        ledger.apply(&Event::ReleaseEnded {
            ticket: ticket.expect("a release has a ticket"),
            error: 0,
            stack: StackId::default(),
        });
    });
}

/// The same through `observe`, with the stack of the allocation.
#[divan::bench(threads = THREADS)]
fn observed(bencher: Bencher<'_, '_>) {
    // Without a driver there is nothing to trace, and reports are taken all the same.
    let _ = gpu_leak_check::__bench::start();
    bencher.bench(|| {
        SOURCE.allocated(Place::cuda(0), address(), 512);
        SOURCE.freed(address());
    });
}
