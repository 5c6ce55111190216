//! Warm-ups that run before the first baseline of the process, and before the baseline of a test.

use std::panic;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use gpu_leak_check::report::check_report::{CheckStatus, Outcome};
use gpu_leak_check::{Check, Scope, gpu_leak_check};
use gpu_leak_tests::checked;
use gpu_leak_tests::child::Run;

static WARMED: Mutex<Vec<&str>> = Mutex::new(Vec::new());

#[gpu_leak_check::warmup]
fn b_second() {
    WARMED.lock().unwrap().push("b");
}

#[gpu_leak_check::warmup]
fn a_first() {
    WARMED.lock().unwrap().push("a");
}

#[gpu_leak_check::warmup]
fn c_fails_when_it_is_requested() {
    assert!(
        std::env::var_os("WARMUP_FAILS").is_none(),
        "no device today"
    );
}

/// Behaves like the set-up of a library that runs checks itself, even on its own threads.
#[gpu_leak_check::warmup]
fn d_checks_its_own_work_when_requested() {
    if std::env::var_os("WARMUP_CHECKS").is_none() {
        return;
    }
    Check::new("set-up").run(|| Check::new("part of it").run(|| ()));
    let beside = thread::spawn(|| Check::new("beside").run(|| 1));
    assert_eq!(beside.join().unwrap(), 1);
}

#[gpu_leak_check]
#[test]
fn warm_ups_run_once_in_the_order_of_their_names() {
    assert_eq!(*WARMED.lock().unwrap(), ["a", "b", "pool"]);
}

#[test]
#[ignore = "run in a process of its own"]
fn opens_a_scope_before_any_check() {
    let scope = Scope::open("first");
    assert_eq!(*WARMED.lock().unwrap(), ["a", "b", "pool"]);
    scope.finish().assert_clean();
}

#[test]
fn warm_ups_run_before_a_scope_that_no_check_precedes() {
    super::passes("attribute::warmup::opens_a_scope_before_any_check");
}

/// Runs checks of three kinds, each of which fails.
#[test]
#[ignore = "run in a process of its own"]
fn checks_after_a_warm_up_has_failed() {
    let block = || Check::new("block").run(|| ());
    let scope = || drop(Scope::open("scope").finish());
    let test = || _ = warm_ups_run_once_in_the_order_of_their_names();
    for check in [block as fn(), scope, test] {
        assert!(panic::catch_unwind(check).is_err());
    }
}

/// Every check fails, not only the first one, so that the result is the same under nextest, where
/// each test has its own process.
#[test]
fn a_warm_up_that_panics_fails_every_check_by_name() {
    let test = "attribute::warmup::checks_after_a_warm_up_has_failed";
    let checked = checked::finish(Run::of(test).env("WARMUP_FAILS", "1"));
    let output = checked.output();
    assert!(checked.child.status.success(), "{output}");
    assert_eq!(checked.reports.len(), 3, "{output}");
    let reported =
        "the warm-up main::attribute::warmup::c_fails_when_it_is_requested failed: no device today";
    for report in &checked.reports {
        let reason = report.reason.as_ref().expect("a reason");
        assert_eq!(reason.what, reported);
        assert_eq!(report.status, CheckStatus::NotMeasured, "{output}");
        assert_eq!(report.outcome, Some(Outcome::Fail), "{output}");
        let panic = format!("thread '{}' panicked at tests/attribute/", report.test);
        assert!(checked.child.stderr.contains(&panic), "{output}");
    }
}

#[test]
fn a_warm_up_may_run_checks_of_its_own() {
    let test = "attribute::warmup::warm_ups_run_once_in_the_order_of_their_names";
    let child = Run::of(test).env("WARMUP_CHECKS", "1").run();
    assert!(child.status.success(), "{child:#?}");
}

/// The warm-up and the test must not be expanded to items with the same name.
mod similar_names {
    #[gpu_leak_check::warmup]
    fn pool() {
        super::WARMED.lock().unwrap().push("pool");
    }

    #[gpu_leak_check::gpu_leak_check]
    #[test]
    fn warmup_pool() {
        assert!(super::WARMED.lock().unwrap().contains(&"pool"));
    }
}

static RUNS: AtomicU32 = AtomicU32::new(0);

#[gpu_leak_check(warmup = 2)]
#[ignore = "counts its runs for another test"]
#[test]
#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn counts() {
    println!("run {}", RUNS.fetch_add(1, Ordering::Relaxed));
}

#[test]
fn a_test_s_own_warm_up_comes_before_the_measured_run() {
    let child = super::passes("attribute::warmup::counts");
    for (run, there) in [("run 0", true), ("run 2", true), ("run 3", false)] {
        assert_eq!(child.stdout.contains(run), there, "{child:#?}");
    }
}

#[gpu_leak_check(warmup = 1)]
#[ignore = "fails on purpose"]
#[test]
fn fails_at_once() {
    assert_eq!(
        RUNS.fetch_add(1, Ordering::Relaxed),
        1,
        "only the second run passes"
    );
}

#[test]
fn a_warm_up_run_that_fails_fails_the_test() {
    let checked = checked::finish(Run::of("attribute::warmup::fails_at_once"));
    let (report, output) = (checked.report(), checked.output());
    assert!(!checked.child.status.success(), "{output}");
    assert!(output.contains("only the second run passes"), "{output}");
    assert_eq!(report.status, CheckStatus::NotMeasured, "{output}");
    assert_eq!(report.outcome, Some(Outcome::Fail), "{output}");
    let reason = report.reason.as_ref().expect("a reason");
    assert_eq!(reason.what, "a warm-up run of the body failed");
}
