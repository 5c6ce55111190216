//! Limits on a reserve. The checks inside a test empty caches and reset the peaks of pools, which
//! must not hide that the test exceeded its limit.

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_check::{Check, Scope, gpu_leak_check};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::fake::Fake;

use super::allocators::{Block, CACHE};
use super::driver::{context, free_to_the_pool, take_of_the_pool, wait};
use super::{GIB, assert_verdict, run};

#[track_caller]
fn assert_over_budget(checked: &Checked, test: &str, reached: u64) {
    let over = CheckStatus::Found(FindingKind::OverBudget);
    let report = assert_verdict(checked, test, over);
    assert_eq!(report.findings[0].bytes, reached, "{}", checked.output());
}

#[gpu_leak_check(layer = "allocator:cache", max_reserved = 100)]
#[ignore = "fails"]
#[test]
fn reserves_before_a_block() {
    CACHE.borrow(130);
    Check::new("afterwards").run(|| drop(Block::new(1)));
}

#[gpu_leak_check(layer = "allocator:cache", max_reserved = 100)]
#[ignore = "fails"]
#[test]
fn reserves_in_a_block() {
    Check::new("meanwhile").run(|| CACHE.borrow(130));
}

#[gpu_leak_check(layer = "allocator:cache", max_reserved = 100)]
#[ignore = "fails"]
#[test]
fn reserves_before_a_scope() {
    CACHE.borrow(130);
    Scope::open("afterwards").finish().assert_clean();
}

#[test]
fn a_check_that_empties_a_cache_leaves_the_peak_of_its_reserve_to_the_test() {
    for test in [
        "reserves_before_a_block",
        "reserves_in_a_block",
        "reserves_before_a_scope",
    ] {
        assert_over_budget(&run(&format!("budgets::{test}")), test, 130);
    }
}

#[gpu_leak_check(layer = "allocator:cache", max_reserved = 200)]
#[ignore = "run in a process of its own"]
#[test]
fn reserves_within_its_limit() {
    drop(Block::new(1));
    CACHE.borrow(130);
}

/// After the body, the cache is empty, and its allocator has no usage.
#[test]
fn a_limit_of_a_reserve_that_was_released_has_an_effect() {
    let checked = run("budgets::reserves_within_its_limit");
    checked.assert_clean();
    assert_eq!(checked.report().notes, [""; 0], "{}", checked.output());
}

/// Allocates memory from the pool and frees it. The pool then releases the memory.
fn borrow_of_the_pool(bytes: usize) {
    context();
    free_to_the_pool(take_of_the_pool(bytes));
    wait();
}

#[gpu_leak_check(max_reserved = "64 MiB")]
#[ignore = "fails"]
#[test]
fn reserves_of_a_pool_before_a_block_with_a_limit() {
    borrow_of_the_pool(200 << 20);
    Check::new("afterwards").max_reserved(GIB).run(|| ());
}

#[gpu_leak_check(max_reserved = "512 MiB")]
#[ignore = "run in a process of its own"]
#[test]
fn reserves_of_a_pool_before_a_block_with_a_lower_limit() {
    borrow_of_the_pool(200 << 20);
    let check = Check::new("afterwards").max_reserved("64 MiB");
    check.run(|| borrow_of_the_pool(100));
}

#[test]
fn a_check_that_resets_the_peak_of_a_pool_leaves_it_to_the_test() {
    let run = |test: &str| checked::on(&Fake::new(), &format!("budgets::{test}"));
    let test = "reserves_of_a_pool_before_a_block_with_a_limit";
    assert_over_budget(&run(test), test, 224 << 20);
    run("reserves_of_a_pool_before_a_block_with_a_lower_limit").assert_clean();
}
