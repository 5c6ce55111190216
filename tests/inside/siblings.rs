//! A leak's report says where others of the same line were freed, which is often the other side of
//! the mistake.

use gpu_leak_check::gpu_leak_check;
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;

use super::{give_back, take};

fn run(test: &str) -> Checked {
    checked::finish(Run::of(&format!("inside::siblings::{test}")))
}

/// Returns the number of the line of this file that consists of `text`.
fn line(text: &str) -> usize {
    let lines = include_str!("siblings.rs").lines();
    1 + lines.take_while(|line| line.trim() != text).count()
}

/// Frees what it is asked to, and forgets the rest.
fn evict(blocks: &[u64], is_evicted: impl Fn(usize) -> bool) {
    for (number, block) in blocks.iter().enumerate() {
        if is_evicted(number) {
            give_back(*block);
        }
    }
}

#[gpu_leak_check]
#[ignore = "run by another"]
#[test]
fn evicts_three_of_five() {
    let mut blocks = Vec::new();
    for _ in 0..5 {
        blocks.push(take(16));
    }
    evict(&blocks, |number| number >= 2);
}

#[test]
fn those_of_the_same_call_site_are_named_with_the_function_that_freed_them() {
    let checked = run("evicts_three_of_five");
    let story = checked.story();
    let [finding] = &*checked.report().findings else {
        panic!("{story}");
    };
    assert_eq!((finding.count, finding.bytes), (2, 32), "{story}");
    let [sibling] = &*finding.siblings else {
        panic!("{story}");
    };
    assert_eq!(
        (sibling.count, &sibling.allocated_from),
        (3, &None),
        "{story}"
    );
    let by =
        "others     3 allocated here were freed in main::inside::give_back (tests/inside/mod.rs:";
    assert!(story.contains(by), "{story}");
    let caller = format!(
        " ← main::inside::siblings::evict (tests/inside/siblings.rs:{}) ← ",
        line("give_back(*block);")
    );
    assert!(story.contains(&caller), "{story}");
}

#[gpu_leak_check]
#[ignore = "run by another"]
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

/// The arms are swapped: the report shows both.
#[test]
fn those_of_another_caller_are_named_with_that_caller() {
    let checked = run("frees_only_what_failed");
    let story = checked.story();
    let [finding] = &*checked.report().findings else {
        panic!("{story}");
    };
    let [sibling] = &*finding.siblings else {
        panic!("{story}");
    };
    let from = sibling.allocated_from.as_deref();
    let allocated = format!(
        "tests/inside/siblings.rs:{}",
        line("let block = take(bytes);")
    );
    let freed = format!("tests/inside/siblings.rs:{}", line("give_back(block);"));
    assert_eq!(from, Some(&*allocated), "{story}");
    assert!(sibling.freed_at.contains(&freed), "{story}");
}

#[gpu_leak_check]
#[ignore = "run by another"]
#[test]
fn frees_nothing() {
    take(16);
    take(16);
}

#[test]
fn where_none_was_freed_none_is_named() {
    let checked = run("frees_nothing");
    for finding in &checked.report().findings {
        assert_eq!(finding.siblings, [], "{}", checked.story());
    }
}
