//! A program whose global allocator reports every block. The harness therefore receives reports
//! about its own allocations and frees, even while it holds a lock of the ledger.

#![expect(unsafe_code, reason = "implements a global allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::panic::catch_unwind;
use std::thread;

use gpu_leak_check::observe::Source;
use gpu_leak_check::{Check, Place, Scope, gpu_leak_check};
use gpu_leak_tests::child::Run;

static SOURCE: Source = Source::new("heap", &["reporting_allocator.rs"]);

struct Reporting;

#[global_allocator]
static HEAP: Reporting = Reporting;

// SAFETY: every call is forwarded to the system's allocator, whose result is returned unchanged.
unsafe impl GlobalAlloc for Reporting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            // Looks up the name of a place, like other sources.
            let place = Place::named("heap:0");
            SOURCE.allocated(place, block.addr() as u64, layout.size() as u64);
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        SOURCE.freed(block.addr() as u64);
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(block, layout) }
    }
}

/// A size that the harness never requests.
const LEFT: usize = 123_457;

#[test]
fn checks_of_every_sort_end() {
    for test in ["leaves_a_block", "runs_checks_of_every_sort"] {
        let directory = tempfile::tempdir().unwrap();
        let recording = directory.path().join("gpu.jsonl");
        for run in [
            Run::of(test),
            Run::of(test).beside_others(),
            Run::of(test).env("GPU_LEAK_CHECK_RECORD", &recording),
        ] {
            let child = run.run();
            let ended = "test result: ";
            assert!(child.stdout.contains(ended), "{child:#?}");
        }
        assert!(recording.is_file());
    }
}

#[test]
fn a_block_that_stays_is_found() {
    let child = Run::of("leaves_a_block").run();
    assert!(!child.status.success(), "{child:#?}");
    assert!(child.stderr.contains("121 KiB"), "{child:#?}");
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaves_a_block() {
    black_box(vec![0_u8; LEFT].leak());
}

#[ignore = "run in a process of its own"]
#[test]
fn runs_checks_of_every_sort() {
    for _ in 0..4 {
        // The test only requires that these checks end. Their findings about the harness's own
        // memory do not matter.
        let _ = catch_unwind(|| {
            Check::new("budgets")
                .max_allocated("1 KiB")
                .max_allocation_count(3)
                .layer("heap")
                .run(|| black_box(vec![1; 100]));
        });
        let _ = catch_unwind(|| Check::new("rounds").rounds(3).run(|| black_box(vec![1; 7])));
        let _ = catch_unwind(|| {
            let scope = Scope::open("scope");
            gpu_leak_check::allow("kept", || black_box(vec![1; 9].leak()));
            let kept = vec![1_u8; 3].leak();
            gpu_leak_check::hand_over(kept.as_ptr().addr() as u64);
            thread::spawn(|| black_box(vec![2; 20])).join().unwrap();
            scope.finish()
        });
        black_box(gpu_leak_check::memory_summary());
    }
}
