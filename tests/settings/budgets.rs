//! Limits on what a test allocates, even if it frees all of it.

use std::sync::{LazyLock, mpsc};
use std::thread;

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_check::{Check, gpu_leak_check};

use super::shelf::{borrow, give_back, take};
use super::{headline, run};

#[gpu_leak_check(
    layer = "shelf",
    max_allocated = 100,
    max_total_allocated = 160,
    max_allocation_count = 3
)]
#[test]
fn a_budget_that_is_used_up_is_kept() {
    let first = take(60);
    let second = take(40);
    give_back(first);
    borrow(60);
    give_back(second);
}

#[test]
fn a_peak_above_the_budget_fails_with_its_figure_and_the_live_memory() {
    let checked = run("budgets::takes_too_much_at_once");
    assert_eq!(
        headline(&checked),
        "gpu budget exceeded: 130 B on shelf:0, max_allocated is 100 B"
    );
    let report = checked.report();
    assert_eq!(
        report.status,
        CheckStatus::Found(FindingKind::OverBudget),
        "{}",
        checked.output()
    );
    let budget = report.findings[0].budget.as_ref().expect("a budget");
    let shares: Vec<_> = budget
        .shares
        .iter()
        .map(|share| (share.count, share.bytes))
        .collect();
    assert_eq!(shares, [(2, 80), (1, 50)], "{}", checked.output());
    assert!(
        checked
            .child
            .stderr
            .contains("#[gpu_leak_check(max_allocated = 130)]"),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check(layer = "allocator:shelf", max_allocated = "100 B")]
#[ignore = "fails"]
#[test]
fn takes_too_much_at_once() {
    borrow(90);
    let large = take(50);
    let small: Vec<_> = (0..2).map(|_| take(40)).collect();
    small.into_iter().for_each(give_back);
    borrow(70);
    give_back(large);
}

#[test]
fn too_many_allocations_fail_with_their_count() {
    let checked = run("budgets::allocates_too_often");
    assert_eq!(
        headline(&checked),
        "gpu budget exceeded: 5 allocations on shelf:0, max_allocation_count is 4 allocations"
    );
}

#[gpu_leak_check(layer = "shelf", max_allocation_count = 4)]
#[ignore = "fails"]
#[test]
fn allocates_too_often() {
    (0..5).for_each(|_| borrow(1));
}

/// Freed memory counts as well, because the budget limits the cost of allocations and not the peak.
#[test]
fn more_bytes_in_total_than_the_budget_fail_with_the_largest_lines() {
    let checked = run("budgets::takes_much_in_total");
    assert_eq!(
        headline(&checked),
        "gpu budget exceeded: 130 B on shelf:0, max_total_allocated is 100 B"
    );
    let report = checked.report();
    let finding = &report.findings[0];
    assert!(
        finding
            .to_string()
            .starts_with("over-budget: 130 B allocated in total, max_total_allocated is 100 B, on shelf:0, at tests/settings/budgets.rs:"),
        "{finding}"
    );
    let budget = finding.budget.as_ref().expect("a budget");
    let shares = budget.shares.iter();
    let shares: Vec<_> = shares.map(|share| (share.count, share.bytes)).collect();
    assert_eq!(shares, [(2, 80), (1, 50)], "{}", checked.output());
    assert!(
        checked
            .child
            .stderr
            .contains("#[gpu_leak_check(max_total_allocated = 130)]"),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check(layer = "shelf", max_allocated = 60, max_total_allocated = 100)]
#[ignore = "fails"]
#[test]
fn takes_much_in_total() {
    borrow(50);
    (0..2).for_each(|_| borrow(40));
}

#[test]
fn a_budget_that_only_the_first_run_exceeds_is_reported_as_first_use() {
    let checked = run("budgets::warms_up_expensively");
    assert!(checked.child.status.success(), "{}", checked.output());
    assert_eq!(
        checked.report().status,
        CheckStatus::Found(FindingKind::FirstUse),
        "{}",
        checked.output()
    );
}

#[test]
fn the_first_line_names_a_limit_that_only_the_first_run_exceeds() {
    let first_use = "gpu leak check: first-use:";
    let limit = "100 B on shelf:0, max_allocated is 10 B";
    let checked = run("budgets::warms_up_expensively");
    let line = format!("{first_use} {limit}\n");
    assert!(checked.child.stderr.contains(&line), "{}", checked.output());
    let help = "help: only the first run exceeded the limit";
    assert!(checked.child.stderr.contains(help), "{}", checked.output());
    let allow = "#[gpu_leak_check(allow(";
    assert!(!checked.child.stderr.contains(allow), "no entry allows it");
    let checked = run("budgets::fills_a_static_and_exceeds_its_limit_once");
    let static_at = "1 allocation, 4 B on shelf:0, allocated at tests/settings/budgets.rs:";
    let output = checked.output();
    let mut lines = output.lines();
    let line = lines.find(|line| line.contains(first_use)).expect("a line");
    assert!(line.contains(static_at), "{output}");
    assert!(line.ends_with(&format!("; {limit}")), "{output}");
}

#[gpu_leak_check(layer = "shelf", max_allocated = 10)]
#[ignore = "called by another test"]
#[test]
fn fills_a_static_and_exceeds_its_limit_once() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        borrow(100);
        take(4);
    });
}

#[gpu_leak_check(layer = "shelf", max_allocated = 10)]
#[ignore = "called by another test"]
#[test]
fn warms_up_expensively() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| borrow(100));
    borrow(10);
}

/// The allocations of nested checks count towards the budget of the test.
#[test]
fn a_nested_check_spends_the_outer_one_s_budget() {
    let checked = run("budgets::calls_a_check_that_takes_much");
    assert!(
        headline(&checked).contains("20 B on shelf:0, max_allocated is 10 B"),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check(layer = "shelf", max_allocated = 10)]
#[ignore = "fails"]
#[test]
fn calls_a_check_that_takes_much() {
    takes_much();
}

#[gpu_leak_check]
#[ignore = "called by another test"]
#[test]
fn takes_much() {
    borrow(20);
}

/// The thread belongs to every run of the test whose first run, or warm-up, has started it.
#[test]
fn a_thread_that_an_earlier_run_started_spends_the_budget() {
    for test in ["borrows_on_a_worker", "borrows_on_a_worker_after_a_warm_up"] {
        let checked = run(&format!("budgets::{test}"));
        assert!(
            headline(&checked).contains("100 B on shelf:0, max_allocated is 10 B"),
            "{}",
            checked.output()
        );
    }
}

/// Borrows memory on a thread that lives as long as the process.
fn borrow_on_a_worker() {
    static WORKER: LazyLock<mpsc::SyncSender<mpsc::SyncSender<()>>> = LazyLock::new(|| {
        let (jobs, work) = mpsc::sync_channel::<mpsc::SyncSender<()>>(0);
        thread::spawn(move || {
            for done in work {
                borrow(100);
                done.send(()).expect("the one that asked waits");
            }
        });
        jobs
    });
    let (done, is_done) = mpsc::sync_channel(0);
    WORKER.send(done).expect("the worker waits");
    is_done.recv().expect("the worker answers");
}

#[gpu_leak_check(layer = "shelf", max_allocated = 10)]
#[ignore = "fails"]
#[test]
fn borrows_on_a_worker() {
    borrow_on_a_worker();
}

#[gpu_leak_check(layer = "shelf", max_allocated = 10, warmup = 1)]
#[ignore = "fails"]
#[test]
fn borrows_on_a_worker_after_a_warm_up() {
    borrow_on_a_worker();
}

/// The test asked for this run of the block.
#[test]
fn the_warm_up_of_a_nested_check_spends_the_outer_one_s_budget() {
    let checked = run("budgets::warms_up_a_block");
    assert!(
        headline(&checked).contains("40 B on shelf:0, max_total_allocated is 30 B"),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check(layer = "shelf", max_total_allocated = 30)]
#[ignore = "fails"]
#[test]
fn warms_up_a_block() {
    Check::new("step").warmup(1).run(|| borrow(20));
}
