//! If an allocator reports a live address again, it has not freed the block at that address.

use std::sync::atomic::{AtomicU64, Ordering};

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::{CheckStatus, Code, FindingKind};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;

use super::{SOURCE, give_back, place};

/// The first address of each pool.
const FIRST: u64 = 1 << 40;

fn run(test: &str) -> Checked {
    checked::finish(Run::of(&format!("inside::reused_addresses::{test}")))
}

#[gpu_leak_check]
#[ignore = "run by another test"]
#[test]
fn forgets_a_block_of_a_new_pool() {
    SOURCE.allocated(place(), FIRST, 16);
}

/// The second run gets the same address. This does not free the first run's block.
#[test]
fn a_leak_is_not_a_deferred_free_because_the_next_run_has_its_address() {
    let checked = run("forgets_a_block_of_a_new_pool");
    let output = checked.output();
    let report = checked.report();
    let leaked = CheckStatus::Found(FindingKind::Leaked);
    assert_eq!(report.status, leaked, "{output}");
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|it| (it.kind, it.count, it.bytes))
        .collect();
    assert_eq!(found, [(FindingKind::Leaked, 1, 16)], "{output}");
}

#[gpu_leak_check]
#[ignore = "run by another test"]
#[test]
fn frees_one_of_two_pools() {
    SOURCE.allocated(place(), FIRST + 1, 16);
    SOURCE.allocated(place(), FIRST + 1, 16);
    give_back(FIRST + 1);
}

#[test]
fn a_free_of_an_address_that_two_blocks_have_is_ambiguous() {
    let checked = run("frees_one_of_two_pools");
    let output = checked.output();
    let report = &checked.reports[0];
    assert_eq!(report.status, CheckStatus::Inconclusive, "{output}");
    let code = report.reason.as_ref().map(|reason| reason.code);
    assert_eq!(code, Some(Code::AmbiguousFree), "{output}");
    assert!(output.contains("different addresses"), "{output}");
}

/// Returns the address of a block that no earlier run had.
fn new_address() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(FIRST + (1 << 20));
    NEXT.fetch_add(1 << 20, Ordering::Relaxed)
}

#[gpu_leak_check]
#[ignore = "run by another test"]
#[test]
fn frees_a_wrong_address() {
    let address = new_address();
    SOURCE.allocated(place(), address, 16);
    give_back(address + 8);
}

#[gpu_leak_check]
#[ignore = "run by another test"]
#[test]
fn allocates_around_an_address_that_it_freed_before() {
    let address = new_address();
    give_back(address + 8);
    SOURCE.allocated(place(), address, 16);
}

#[test]
fn a_free_of_a_wrong_address_came_after_the_allocation() {
    let says = |test| {
        let checked = run(test);
        let leaked = CheckStatus::Found(FindingKind::Leaked);
        assert_eq!(checked.report().status, leaked, "{}", checked.output());
        let output = checked.output();
        let note = output.contains("passed an address 8 bytes past the start of the allocation");
        let help = output.contains("help: free the address that the allocation returned, ");
        (note, help)
    };
    assert_eq!(says("frees_a_wrong_address"), (true, true));
    let before = says("allocates_around_an_address_that_it_freed_before");
    assert_eq!(before, (false, false));
}
