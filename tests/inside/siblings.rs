//! The report of a leak says where other allocations of the same line were freed, because the
//! mistake is often near that place.

use std::sync::atomic::{AtomicU64, Ordering};

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;

use super::{SOURCE, give_back, place, take};

fn run(test: &str) -> Checked {
    checked::finish(Run::of(&format!("inside::siblings::{test}")))
}

/// Returns the number of the line of this file that consists of `text`.
fn line(text: &str) -> usize {
    let lines = include_str!("siblings.rs").lines();
    1 + lines.take_while(|line| line.trim() != text).count()
}

/// Frees the blocks that `is_evicted` selects, and forgets the rest.
fn evict(blocks: &[u64], is_evicted: impl Fn(usize) -> bool) {
    for (number, block) in blocks.iter().enumerate() {
        if is_evicted(number) {
            give_back(*block);
        }
    }
}

#[gpu_leak_check]
#[ignore = "run by another test"]
#[test]
fn evicts_three_of_five() {
    let mut blocks = Vec::new();
    for _ in 0..5 {
        blocks.push(take(16));
    }
    evict(&blocks, |number| number >= 2);
}

#[test]
fn siblings_of_the_same_call_site_are_named_with_the_freeing_function() {
    let checked = run("evicts_three_of_five");
    let output = checked.output();
    let [finding] = &*checked.report().findings else {
        panic!("{output}");
    };
    assert_eq!((finding.count, finding.bytes), (2, 32), "{output}");
    let [sibling] = &*finding.siblings else {
        panic!("{output}");
    };
    assert_eq!(
        (sibling.count, &sibling.allocated_from),
        (3, &None),
        "{output}"
    );
    let shown = format!(
        "::: siblings::evict (:{}): for comparison: 3 others were freed here\n",
        line("give_back(*block);")
    );
    assert!(output.contains(&shown), "{output}");
}

#[gpu_leak_check]
#[ignore = "run by another test"]
#[test]
fn frees_only_what_failed() {
    for request in [Ok(16), Err(8)] {
        match request {
            Ok(bytes) => {
                take(bytes);
            }
            Err(bytes) => {
                let block = take(bytes);
                give_back(block);
            }
        }
    }
}

/// The two arms of the `match` are swapped, and the report shows both.
#[test]
fn siblings_of_another_caller_are_named_with_that_caller() {
    let checked = run("frees_only_what_failed");
    let output = checked.output();
    let [finding] = &*checked.report().findings else {
        panic!("{output}");
    };
    let [sibling] = &*finding.siblings else {
        panic!("{output}");
    };
    let from = sibling.allocated_from.as_deref();
    let allocated = format!(
        "the test (tests/inside/siblings.rs:{})",
        line("let block = take(bytes);")
    );
    let freed = format!("tests/inside/siblings.rs:{}", line("give_back(block);"));
    assert_eq!(from, Some(&*allocated), "{output}");
    assert!(sibling.freed_at.contains(&freed), "{output}");
}

#[gpu_leak_check]
#[ignore = "run by another test"]
#[test]
fn frees_nothing() {
    take(16);
    take(16);
}

#[test]
fn no_sibling_is_named_if_none_was_freed() {
    let checked = run("frees_nothing");
    for finding in &checked.report().findings {
        assert_eq!(finding.siblings, [], "{}", checked.output());
    }
}

/// Two buffers, one of which the destructor forgets.
struct Pair {
    first: u64,
    _second: u64,
}

impl Pair {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1 << 40);
        let first = NEXT.fetch_add(2, Ordering::Relaxed);
        SOURCE.allocated(place(), first, 16);
        SOURCE.allocated(place(), first + 1, 8);
        Self {
            first,
            _second: first + 1,
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        give_back(self.first);
    }
}

#[gpu_leak_check]
#[ignore = "run by another test"]
#[test]
fn drops_one_of_two() {
    drop(Pair::new());
}

#[test]
fn companions_are_named_with_the_destructor_that_freed_them() {
    let checked = run("drops_one_of_two");
    let output = checked.output();
    let [finding] = &*checked.report().findings else {
        panic!("{output}");
    };
    assert_eq!((finding.count, finding.bytes), (1, 8), "{output}");
    assert_eq!(finding.siblings, [], "{output}");
    let [companion] = &*finding.companions else {
        panic!("{output}");
    };
    assert_eq!((companion.resource, companion.count), (Kind::Block, 1));
    let created = format!(
        "Pair::new (tests/inside/siblings.rs:{})",
        line("SOURCE.allocated(place(), first, 16);")
    );
    assert_eq!(companion.created_in, created, "{output}");
    let by = format!(
        "drop (:{}) ← the test (:{})\n",
        line("give_back(self.first);"),
        line("drop(Pair::new());")
    );
    let reported = output.lines().find(|line| line.contains("with it"));
    let reported = reported.unwrap_or_else(|| panic!("{output}"));
    assert!(format!("{reported}\n").ends_with(&by), "{output}");
}
