//! A nested check may run its block again. The check around it judges what the program did, so only
//! the first of these runs counts there, and a check that failed fails again in a confirming run.

use std::cell::Cell;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Once, OnceLock};

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_check::{Check, OnLeak, assert_no_growth, gpu_leak_check};
use gpu_leak_tests::checked;
use gpu_leak_tests::fake::Fake;

use super::allocators::{Block, POOL, SILENT, take};
use super::{KIB, assert_leaked, assert_verdict, driver, kinds, report, run};

/// Leaves 80 B in a check that tolerates them.
fn leaves_80() {
    Check::new("step").tolerance(100).run(|| _ = take(80));
}

#[gpu_leak_check(confirm = false, tolerance = 100)]
#[ignore = "leaves less than is tolerated"]
#[test]
fn tolerates_what_its_block_left_once() {
    leaves_80();
}

#[gpu_leak_check(expect(count = 1, bytes = 80))]
#[ignore = "leaves what is expected"]
#[test]
fn expects_what_its_block_left_once() {
    leaves_80();
}

#[test]
fn a_further_run_of_a_block_leaves_nothing_for_its_test() {
    for test in [
        "tolerates_what_its_block_left_once",
        "expects_what_its_block_left_once",
    ] {
        let checked = run(&format!("further_runs::{test}"));
        assert!(checked.child.status.success(), "{}", checked.output());
    }
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_in_a_tolerant_block() {
    leaves_80();
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_in_nested_tolerant_blocks() {
    Check::new("outer").tolerance(100).run(leaves_80);
}

#[test]
fn a_leak_of_a_tolerant_block_is_not_one_time_set_up_of_its_test() {
    for (test, of_all_runs) in [
        ("leaks_in_a_tolerant_block", 160),
        ("leaks_in_nested_tolerant_blocks", 240),
    ] {
        let checked = run(&format!("further_runs::{test}"));
        assert_leaked(&checked, test, 80);
        let report = report(&checked, test);
        assert_eq!(kinds(report), ["leaked"]);
        // The table shows what all runs of the block left.
        let row = &report.devices[0].rows[0];
        assert_eq!(row.after - row.baseline, of_all_runs, "{row:?}");
    }
}

#[gpu_leak_check(rounds = 3)]
#[ignore = "grows on purpose"]
#[test]
fn grows_by_its_block() {
    leaves_80();
}

#[test]
fn a_round_grows_by_what_its_block_leaves_once() {
    let checked = run("further_runs::grows_by_its_block");
    let grew = CheckStatus::Found(FindingKind::Grew);
    let report = assert_verdict(&checked, "grows_by_its_block", grew);
    let rounds = report.findings[0].rounds.iter();
    let rounds: Vec<_> = rounds.map(|it| (it.count, it.bytes)).collect();
    assert_eq!(
        rounds,
        [(1, 80), (2, 160), (3, 240)],
        "{}",
        checked.output()
    );
}

#[gpu_leak_check(
    layer = "allocator:reporting",
    max_allocation_count = 2,
    max_allocated = 50
)]
#[ignore = "run by another test"]
#[test]
fn makes_a_static_in_a_block_within_its_budget() {
    static TABLE: OnceLock<Block> = OnceLock::new();
    Check::new("step").run(|| {
        TABLE.get_or_init(|| Block::new(20));
        drop(Block::new(30));
    });
}

#[gpu_leak_check(layer = "allocator:reporting", max_allocated = 90)]
#[ignore = "leaks on purpose"]
#[test]
fn leaks_in_a_block_and_borrows_within_its_budget() {
    Check::new("step").tolerance(100).run(|| _ = take(40));
    drop(Block::new(50));
}

#[test]
fn a_further_run_of_a_block_uses_up_no_budget_of_its_test() {
    let test = "makes_a_static_in_a_block_within_its_budget";
    let checked = run(&format!("further_runs::{test}"));
    assert_eq!(
        kinds(report(&checked, test)),
        ["first-use"],
        "{}",
        checked.output()
    );
    let test = "leaks_in_a_block_and_borrows_within_its_budget";
    let checked = run(&format!("further_runs::{test}"));
    assert_leaked(&checked, test, 40);
    assert_eq!(
        kinds(report(&checked, test)),
        ["leaked"],
        "{}",
        checked.output()
    );
}

#[gpu_leak_check(layer = "allocator:reporting", max_allocated = 150)]
#[ignore = "passes its limit on purpose"]
#[test]
fn holds_more_than_its_budget_with_what_its_block_returned() {
    let returned = Check::new("load").run(|| Block::new(80));
    drop(Block::new(80));
    drop(returned);
    // The blocks above have been freed, so they no longer count.
    drop(Block::new(100));
}

#[test]
fn what_a_further_run_of_a_block_returned_uses_up_the_budget_of_its_test() {
    let test = "holds_more_than_its_budget_with_what_its_block_returned";
    let checked = run(&format!("further_runs::{test}"));
    let over = CheckStatus::Found(FindingKind::OverBudget);
    let report = assert_verdict(&checked, test, over);
    let budget = report.findings[0].budget.as_ref().expect("a budget");
    assert_eq!(budget.reached, 160, "{}", checked.output());
}

#[inline(never)]
fn cold_path() -> u64 {
    take(8)
}

#[inline(never)]
fn warm_path() -> u64 {
    take(8)
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn forgets_what_its_block_returned_by_another_path() {
    static WARM: Once = Once::new();
    /// Frees its block when the next run replaces it.
    struct Returned(u64);
    impl Drop for Returned {
        fn drop(&mut self) {
            super::allocators::give_back(self.0);
        }
    }
    let returned = Check::new("load").run(|| {
        let is_warm = WARM.is_completed();
        WARM.call_once(|| {});
        Returned(if is_warm { warm_path() } else { cold_path() })
    });
    forget(returned);
}

#[test]
fn memory_that_a_further_run_of_a_block_replaced_belongs_to_the_test() {
    let test = "forgets_what_its_block_returned_by_another_path";
    let checked = run(&format!("further_runs::{test}"));
    assert_leaked(&checked, test, 8);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn goes_on_after_a_block_failed() {
    let step = || Check::new("step").run(|| take(80));
    assert!(catch_unwind(AssertUnwindSafe(step)).is_err());
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
#[should_panic(expected = "gpu leak: 1 allocation, 80 B")]
fn expects_that_a_block_fails() {
    Check::new("step").run(|| take(80));
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn goes_on_after_one_of_several_blocks_failed() {
    let failed = [false, true].map(|leaks| {
        let step = || Check::new("step").run(|| _ = leaks.then(|| take(80)));
        catch_unwind(AssertUnwindSafe(step)).is_err()
    });
    assert_eq!(failed, [false, true]);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn goes_on_after_a_block_in_a_block_failed() {
    let inner = || Check::new("inner").run(|| take(80));
    let outer = || assert!(catch_unwind(AssertUnwindSafe(inner)).is_err());
    let outer = || Check::new("outer").run(outer);
    assert!(catch_unwind(AssertUnwindSafe(outer)).is_err());
}

#[test]
fn a_block_whose_failure_is_expected_fails_again_in_a_further_run() {
    for test in [
        "goes_on_after_a_block_failed",
        "expects_that_a_block_fails",
        "goes_on_after_one_of_several_blocks_failed",
        "goes_on_after_a_block_in_a_block_failed",
    ] {
        let checked = run(&format!("further_runs::{test}"));
        assert_leaked(&checked, test, 80);
        assert_eq!(kinds(report(&checked, test)), ["leaked"]);
    }
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn goes_on_after_a_growing_block_failed() {
    let grows = || assert_no_growth(3, || _ = take(80));
    assert!(catch_unwind(AssertUnwindSafe(grows)).is_err());
}

#[test]
fn rounds_whose_failure_is_expected_fail_again_in_a_further_run() {
    let test = "goes_on_after_a_growing_block_failed";
    assert_leaked(&run(&format!("further_runs::{test}")), test, 240);
}

#[gpu_leak_check]
#[ignore = "run by another test"]
#[test]
fn makes_a_static_in_its_block_only_once() {
    static MADE: OnceLock<Block> = OnceLock::new();
    let made = Cell::new(false);
    Check::new("step").run(|| {
        MADE.get_or_init(|| {
            made.set(true);
            Block::new(80)
        });
    });
}

#[test]
fn one_time_set_up_in_a_block_is_that_of_its_test() {
    let test = "makes_a_static_in_its_block_only_once";
    let checked = run(&format!("further_runs::{test}"));
    let first_use = CheckStatus::Found(FindingKind::FirstUse);
    let report = assert_verdict(&checked, test, first_use);
    assert_eq!(report.findings[0].bytes, 80, "{}", checked.output());
}

#[gpu_leak_check(confirm = false, tolerance = 100, reserved_tolerance = 100)]
#[ignore = "leaves less than is tolerated"]
#[test]
fn tolerates_a_sum_that_its_block_raised_once() {
    let step = Check::new("step").tolerance(100).reserved_tolerance(100);
    step.run(|| SILENT.take(80));
}

#[gpu_leak_check(confirm = false, tolerance = 100)]
#[ignore = "leaks on purpose"]
#[test]
fn raises_a_sum_in_and_after_its_block() {
    Check::new("step").tolerance(100).run(|| SILENT.take(80));
    SILENT.take(80);
}

#[gpu_leak_check(confirm = false, reserved_tolerance = "1 KiB", tolerance = 100)]
#[ignore = "leaves less than is tolerated"]
#[test]
fn tolerates_a_reserve_that_its_block_took_once() {
    let step = Check::new("step").reserved_tolerance("1 KiB");
    step.tolerance(100).run(|| {
        POOL.reserve(KIB);
        POOL.take(8, KIB);
    });
}

#[test]
fn a_further_run_of_a_block_raises_no_sum_of_its_test() {
    for test in [
        "tolerates_a_sum_that_its_block_raised_once",
        "tolerates_a_reserve_that_its_block_took_once",
    ] {
        let checked = run(&format!("further_runs::{test}"));
        assert_verdict(&checked, test, CheckStatus::Clean);
    }
    let test = "raises_a_sum_in_and_after_its_block";
    assert_leaked(&run(&format!("further_runs::{test}")), test, 160);
}

#[gpu_leak_check]
#[ignore = "frees twice on purpose"]
#[test]
fn frees_twice_in_a_block_that_warns() {
    driver::context();
    Check::new("step").on_leak(OnLeak::Warn).run(|| {
        let pointer = driver::take(1000);
        driver::free(pointer);
        driver::rejected_free(pointer);
    });
}

#[test]
fn a_failed_free_of_a_further_run_of_a_block_is_not_counted() {
    let test = "frees_twice_in_a_block_that_warns";
    let checked = checked::on(&Fake::new(), &format!("further_runs::{test}"));
    let failed = CheckStatus::Found(FindingKind::FailedFree);
    let report = assert_verdict(&checked, test, failed);
    assert_eq!(report.findings[0].count, 1, "{}", checked.output());
}
