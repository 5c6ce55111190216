//! Many calls on sixteen threads. At the end, the figures of the ledger, the driver, its pool and
//! the allocator must agree. This is a short run. `make soak` makes ten million calls.

mod driver;

use std::env;
use std::thread;

use gpu_leak_check::observe::Source;
use gpu_leak_check::{Place, gpu_leak_check, max_memory_allocated, memory_allocated};
use gpu_leak_kernels::memory::{self, device_memory, empty_cache};
use gpu_leak_kernels::{Device, EmbeddedConfig};
use gpu_leak_tests::random::Random;

const THREADS: usize = 16;

/// The number of allocating and freeing calls of each test, on all threads together.
fn calls() -> usize {
    env::var("SOAK_CALLS").map_or(160_000, |calls| calls.parse().expect("a number of calls"))
}

/// A place that nothing else in this program uses.
fn synthetic() -> Place {
    Place::named("soak:0")
}

static SOURCE: Source = Source::new("soak", &["tests/soak/"]);

/// An allocator that only invents addresses. Each thread has its own addresses, and another thread
/// frees every fourth block. The test runs in a separate process, because the other tests of this
/// program have nearly as many allocators as the harness can count.
#[gpu_leak_check(confirm = false, isolate)]
#[test]
fn the_ledger_counts_what_an_allocator_reports() {
    let place = synthetic();
    let kept: u64 = thread::scope(|scope| {
        let work = |number: usize| {
            let mut random = Random(number as u64);
            let mut kept: Vec<(u64, u64)> = Vec::new();
            let mut next = (number as u64 + 1) << 40;
            for _ in 0..calls() / THREADS {
                if kept.is_empty() || (kept.len() < 100 && random.below(2) == 0) {
                    let bytes = 1 + random.below(1 << 20) as u64;
                    SOURCE.allocated(place, next, bytes);
                    kept.push((next, bytes));
                    next += 1 << 20;
                } else {
                    let (address, _) = kept.swap_remove(random.below(kept.len()));
                    SOURCE.freed(address);
                }
            }
            kept
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        let kept = threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("a thread"));
        let kept: Vec<_> = kept.collect();
        let sum = kept.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(memory_allocated(synthetic()), sum);
        assert!(max_memory_allocated(synthetic()) >= sum);
        kept.iter().for_each(|(address, _)| SOURCE.freed(*address));
        sum
    });
    assert!(kept > 0);
    assert_eq!(memory_allocated(synthetic()), 0);
}

#[gpu_leak_check(confirm = false)]
#[test]
fn ledger_allocator_and_device_agree_at_the_end() {
    let device = Device::embedded_with(EmbeddedConfig::default()).expect("a device");
    let place = Place::named(&device.to_string());
    let at_first = device_memory(&device).expect("its memory");
    crate::conformance::threads::hammer(&device, THREADS as u8, calls() / THREADS);
    let stats = memory::stats(&device);
    assert_eq!(stats.allocation.all.allocated, stats.allocation.all.freed);
    assert_eq!(
        (memory::allocated(&device), memory_allocated(place)),
        (0, 0)
    );
    empty_cache(&device).expect("free segments go back");
    assert_eq!(memory::reserved(&device), 0);
    assert_eq!(device_memory(&device).expect("its memory"), at_first);
}
