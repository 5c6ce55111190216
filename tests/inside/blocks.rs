//! Checks of blocks of code inside a test.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Report};
use gpu_leak_check::{Check, OnLeak, assert_no_growth, gpu_leak_check};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;

use super::{give_back, take};

fn of(test: &str) -> Run {
    Run::of(&format!("inside::blocks::{test}"))
}

fn run(test: &str) -> Checked {
    checked::finish(of(test))
}

/// Returns the report of this block. Fails unless the test failed.
#[track_caller]
fn failed<'a>(checked: &'a Checked, block: &str) -> &'a Report {
    assert!(!checked.child.status.success(), "{}", checked.output());
    let report = checked.reports.iter().find(|report| report.test == block);
    report.unwrap_or_else(|| panic!("no report of {block}\n{}", checked.output()))
}

#[test]
#[ignore = "leaks on purpose"]
fn leaks() {
    Check::new("clean step").run(|| give_back(take(1)));
    Check::new("leaky step").run(|| _ = take(8));
}

#[test]
fn a_block_that_leaks_fails_its_test_with_the_report() {
    let checked = run("leaks");
    let report = failed(&checked, "leaky step");
    assert_eq!(
        report.status,
        CheckStatus::Found(FindingKind::Leaked),
        "{}",
        checked.output()
    );
    assert!(
        report.findings[0].confirmed.is_some(),
        "{}",
        checked.output()
    );
    let reported = "thread 'leaky step' panicked at tests/inside/blocks.rs";
    assert!(
        checked.child.stderr.contains(reported),
        "{}",
        checked.output()
    );
    assert_eq!(checked.reports[0].status, CheckStatus::Clean);
}

#[gpu_leak_check]
#[ignore = "run by other tests"]
#[test]
fn goes_on_with_what_its_block_returned() {
    let taken = Check::new("returns")
        .tolerance("1 KiB")
        .confirm(false)
        .run(|| take(1024));
    give_back(taken);
}

#[test]
fn memory_that_a_block_returns_belongs_to_the_test() {
    let checked = run("goes_on_with_what_its_block_returned");
    assert!(checked.child.status.success(), "{}", checked.output());
}

static RUNS: AtomicU32 = AtomicU32::new(0);

#[test]
#[ignore = "counts the runs of its blocks"]
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn fills_a_static() {
    static TABLE: OnceLock<u64> = OnceLock::new();
    Check::new("first use").run(|| {
        RUNS.fetch_add(1, Ordering::Relaxed);
        TABLE.get_or_init(|| take(16));
    });
    println!("{} runs", RUNS.load(Ordering::Relaxed));
}

#[test]
fn memory_that_a_block_creates_once_is_reported_and_fails_nothing() {
    let checked = run("fills_a_static");
    assert!(checked.child.status.success(), "{}", checked.output());
    assert_eq!(
        checked.report().status,
        CheckStatus::Found(FindingKind::FirstUse)
    );
    assert!(
        checked.child.stdout.contains("2 runs"),
        "{}",
        checked.output()
    );
}

#[test]
fn switched_off_a_block_runs_once_and_is_not_judged() {
    let checked = checked::finish(of("leaks").env("GPU_LEAK_CHECK", "off"));
    assert!(checked.child.status.success(), "{}", checked.output());
    assert!(checked.reports.is_empty(), "{}", checked.output());
}

#[test]
#[ignore = "panics on purpose"]
fn panics() {
    Check::new("panics").run(|| {
        take(8);
        panic!("the block's own panic");
    })
}

#[test]
fn a_block_s_own_panic_is_kept_and_the_leak_is_reported_as_well() {
    let checked = run("panics");
    assert_eq!(
        failed(&checked, "panics").status,
        CheckStatus::Found(FindingKind::Leaked)
    );
    for words in ["the block's own panic", "gpu leak: 1 allocation, 8 B"] {
        assert!(checked.child.stderr.contains(words), "{}", checked.output());
    }
    assert!(checked.aborted.is_empty(), "{}", checked.output());
}

#[test]
#[ignore = "passes its limit on purpose"]
fn takes_too_much() {
    let limited = || Check::new("limited").layer("inside").max_allocated("1 KiB");
    limited().run(|| give_back(take(1024)));
    limited().run(|| give_back(take(1025)));
}

#[test]
fn a_block_has_the_limits_of_a_test() {
    let checked = run("takes_too_much");
    failed(&checked, "limited");
    let statuses: Vec<_> = checked.reports.iter().map(|report| report.status).collect();
    assert_eq!(
        statuses,
        [
            CheckStatus::Clean,
            CheckStatus::Found(FindingKind::OverBudget)
        ]
    );
}

#[test]
#[ignore = "grows on purpose"]
fn grows() {
    static TABLE: OnceLock<u64> = OnceLock::new();
    assert_no_growth(4, || _ = TABLE.get_or_init(|| take(16)));
    assert_no_growth(4, || _ = take(2));
}

#[test]
fn growth_in_every_round_fails_and_memory_of_one_round_does_not() {
    let checked = run("grows");
    failed(&checked, "assert_no_growth");
    let statuses: Vec<_> = checked.reports.iter().map(|report| report.status).collect();
    assert_eq!(
        statuses,
        [CheckStatus::Clean, CheckStatus::Found(FindingKind::Grew)],
        "{}",
        checked.output()
    );
}

#[test]
#[should_panic(expected = "MiB")]
fn an_invalid_size_is_refused_with_the_valid_units() {
    let _ = Check::new("wrong").tolerance("1 MB");
}

#[test]
#[ignore = "leaves what is allowed"]
fn leaves_an_allowed_block() {
    Check::new("allowed")
        .allow("fn:*leaves_an_allowed_block*", "shared by all models")
        .run(|| _ = take(8));
}

#[test]
fn memory_that_a_block_allows_may_stay() {
    let checked = run("leaves_an_allowed_block");
    assert!(checked.child.status.success(), "{}", checked.output());
    let report = checked.report();
    assert_eq!(report.status, CheckStatus::Found(FindingKind::Allowed));
}

#[test]
#[ignore = "leaks on purpose"]
fn leaks_as_expected_and_then_less() {
    Check::new("as expected")
        .expect_count(2)
        .expect_bytes("3 B")
        .run(|| _ = (take(1), take(2)));
    Check::new("less").expect_count(2).run(|| _ = take(1));
}

#[test]
fn a_block_that_expects_a_leak_fails_if_it_leaks_something_else() {
    let checked = run("leaks_as_expected_and_then_less");
    failed(&checked, "less");
    assert!(
        checked.child.stderr.contains("thread 'less' panicked"),
        "{}",
        checked.output()
    );
}

#[test]
#[ignore = "leaks on purpose"]
fn warns_of_its_leak() {
    Check::new("warned")
        .on_leak(OnLeak::Warn)
        .run(|| _ = take(8));
}

#[test]
fn a_block_may_be_set_to_warn() {
    let checked = run("warns_of_its_leak");
    assert!(checked.child.status.success(), "{}", checked.output());
    let report = checked.report();
    assert_eq!(report.status, CheckStatus::Found(FindingKind::Leaked));
}

#[test]
#[ignore = "leaks on purpose"]
fn leaks_in_a_block_that_cannot_run_twice() {
    let moved = String::from("weights");
    let returned = Check::new("once").run_once(move || {
        take(8);
        moved
    });
    unreachable!("{returned}");
}

#[test]
fn a_block_that_cannot_run_twice_fails_for_what_it_leaves() {
    let of = of("leaks_in_a_block_that_cannot_run_twice");
    let checked = checked::finish(of.env("GPU_LEAK_CHECK_ROUNDS", "5"));
    let report = failed(&checked, "once");
    assert_eq!(report.status, CheckStatus::Found(FindingKind::Leaked));
    assert_eq!(report.findings[0].bytes, 8, "{}", checked.output());
}

#[ignore = "leaks on purpose"]
#[tokio::test]
async fn leaks_while_it_waits() {
    let taken = Check::new("clean step")
        .run_async(async || {
            let taken = take(1);
            tokio::task::yield_now().await;
            give_back(taken);
            7
        })
        .await;
    assert_eq!(taken, 7);
    Check::new("leaky step")
        .run_async(async || {
            tokio::task::yield_now().await;
            take(8);
            // The runtime's other tasks belong to no scope.
            tokio::spawn(async { give_back(take(2)) })
                .await
                .expect("no panic");
        })
        .await;
}

#[test]
fn a_block_that_waits_is_judged_where_its_test_awaits_it() {
    let checked = run("leaks_while_it_waits");
    let report = failed(&checked, "leaky step");
    assert_eq!(report.status, CheckStatus::Found(FindingKind::Leaked));
    assert_eq!(report.findings[0].bytes, 8, "{}", checked.output());
    assert_eq!(checked.reports[0].status, CheckStatus::Clean);
}
