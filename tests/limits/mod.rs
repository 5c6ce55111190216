//! Leaks that the harness does not see. [`docs/limits.md`](../../docs/limits.md) has a line for
//! each blind spot, and names the test that proves it. The tests here have no other purpose.

use std::process::Command;
use std::sync::Mutex;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_tests::checked;

use crate::kinds::planted::{Pointer, context, memory, virtual_memory};

const PAGE: &str = include_str!("../../docs/limits.md");

/// Returns the names of tests in the page, which are paths in backticks.
fn named() -> impl Iterator<Item = &'static str> {
    let quoted = PAGE.split('`').skip(1).step_by(2);
    quoted.filter(|words| words.contains("::") && !words.contains(['(', ' ', '<']))
}

#[test]
fn every_test_that_the_page_names_is_there() {
    let program = std::env::current_exe().expect("this program");
    let listed = Command::new(program)
        .arg("--list")
        .output()
        .expect("a list");
    let listed = String::from_utf8(listed.stdout).expect("text");
    let tests: Vec<_> = listed
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .collect();
    assert!(named().count() > 10, "the page names its tests");
    let is_there = |name: &&str| {
        let within = format!("{name}::");
        tests
            .iter()
            .any(|test| test == name || test.starts_with(&within))
    };
    let missing: Vec<_> = named().filter(|name| !is_there(name)).collect();
    assert!(
        missing.is_empty(),
        "docs/limits.md names tests that do not exist: {missing:?}"
    );
}

fn run(test: &str) -> checked::Checked {
    checked::run(&format!("limits::{test}"))
}

/// The segment of a foreign caching allocator, which hands out pieces of it. The allocator reports
/// nothing and has no probe.
static SEGMENT: Mutex<Option<Pointer>> = Mutex::new(None);

fn piece_of_a_segment() -> Pointer {
    *SEGMENT.lock().unwrap().get_or_insert_with(memory::linear)
}

#[test]
fn a_piece_of_an_earlier_segment_is_not_seen_without_a_probe() {
    run("child_with_a_segment").assert_clean();
}

#[test]
#[ignore = "run in a process of its own"]
fn child_with_a_segment() {
    context();
    piece_of_a_segment();
    keeps_a_piece();
}

#[gpu_leak_check]
#[ignore = "needs the segment of its caller"]
#[test]
fn keeps_a_piece() {
    context();
    piece_of_a_segment();
}

#[test]
fn another_reference_to_earlier_physical_memory_is_not_seen() {
    let checked = run("child_with_physical_memory");
    checked.assert_clean();
    assert_eq!(checked.reports.len(), 2, "{}", checked.output());
}

/// The address at which the first check has mapped memory, for the second check.
static MAPPED: Mutex<Option<Pointer>> = Mutex::new(None);

#[test]
#[ignore = "run in a process of its own"]
fn child_with_physical_memory() {
    // The first check loads the driver.
    retains();
    context();
    virtual_memory::reserve_rooms();
    *MAPPED.lock().unwrap() = Some(virtual_memory::mapped());
    retains();
}

#[gpu_leak_check]
#[ignore = "run by a test that sets it up"]
#[test]
fn retains() {
    context();
    if let Some(mapped) = *MAPPED.lock().unwrap() {
        virtual_memory::retain(mapped);
    }
}
