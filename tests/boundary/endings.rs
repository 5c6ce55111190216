//! Bodies that do not simply return.

use std::sync::Mutex;

use gpu_leak_check::report::check_report::{CheckStatus, Code, FindingKind};
use gpu_leak_check::{Check, gpu_leak_check};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::fake::Fake;

use super::driver::{Pointer, allocate, context, fork, free, wait_for};
use super::only_finding;

fn run(test: &str) -> Checked {
    checked::run(&format!("boundary::endings::{test}"))
}

fn leak() {
    context();
    allocate(8).unwrap();
}

/// Fails unless the body's own failure is still the outcome and the leak is reported as well.
fn assert_fails_with_both(checked: &Checked, own: &str) {
    let output = checked.output();
    assert!(!checked.child.status.success(), "{output}");
    assert_eq!(
        checked.report().status,
        CheckStatus::Found(FindingKind::Leaked),
        "{output}"
    );
    assert!(checked.child.stderr.contains(own), "{output}");
    assert!(
        checked
            .child
            .stderr
            .contains("gpu leak: 1 allocation, 8 B on cuda:0"),
        "{output}"
    );
}

#[test]
fn a_panic_stays_the_outcome_and_the_leak_is_reported_as_well() {
    assert_fails_with_both(&run("panics"), "the body's own words");
}

#[gpu_leak_check]
#[ignore = "panics on purpose"]
#[test]
fn panics() {
    leak();
    panic!("the body's own words");
}

#[test]
fn an_error_stays_the_outcome_and_the_leak_is_reported_as_well() {
    assert_fails_with_both(&run("returns_an_error"), "the body's own error");
}

#[gpu_leak_check]
#[ignore = "fails on purpose"]
#[test]
fn returns_an_error() -> Result<(), String> {
    leak();
    Err("the body's own error".to_owned())
}

#[test]
fn a_panic_without_a_leak_is_reported_unchanged() {
    let checked = run("panics_cleanly");
    let output = checked.output();
    assert!(!checked.child.status.success(), "{output}");
    assert_eq!(checked.report().status, CheckStatus::Clean, "{output}");
    assert!(!checked.child.stderr.contains("gpu leak:"), "{output}");
}

#[gpu_leak_check]
#[ignore = "panics on purpose"]
#[test]
fn panics_cleanly() {
    let stream = context().default_stream();
    let _held = stream.alloc_zeros::<u8>(8).unwrap();
    panic!("the unwinding frees it");
}

#[test]
fn the_right_panic_and_a_leak_fail_with_the_report() {
    let checked = run("panics_as_it_should");
    let output = checked.output();
    assert!(!checked.child.status.success(), "{output}");
    assert_eq!(
        checked.report().status,
        CheckStatus::Found(FindingKind::Leaked),
        "{output}"
    );
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[should_panic(expected = "as it should")]
#[test]
fn panics_as_it_should() {
    leak();
    panic!("as it should");
}

#[test]
fn memory_freed_after_the_verdict_is_late_and_the_verdict_stays() {
    let checked = run("frees_after_the_verdict");
    let report = checked.report();
    assert_eq!(
        report.status,
        CheckStatus::Found(FindingKind::Leaked),
        "{}",
        checked.output()
    );
    let [late] = &checked.late[..] else {
        panic!("{}", checked.output());
    };
    let reported = (&late.test, late.count, late.bytes);
    assert_eq!(reported, (&report.test, 2, 128), "{}", checked.output());
    let summary = format!(
        "{}: the program freed 2 resources of the leak (128 B) {} ms after the verdict",
        report.test, late.late_ms
    );
    assert!(
        checked.child.stderr.contains(&summary),
        "{}",
        checked.output()
    );
}

/// The blocks that the test leaves, one in each of its two runs.
static LEFT: Mutex<Vec<Pointer>> = Mutex::new(Vec::new());

#[gpu_leak_check]
#[ignore = "run by a test that frees what it leaves"]
#[test]
fn leaves_one_behind() {
    context();
    LEFT.lock().unwrap().push(allocate(64).unwrap());
}

#[test]
#[ignore = "run in a process of its own"]
fn frees_after_the_verdict() {
    assert!(std::panic::catch_unwind(leaves_one_behind).is_err());
    context();
    for left in LEFT.lock().unwrap().drain(..) {
        free(left).unwrap();
    }
}

#[test]
fn a_process_that_exits_inside_a_test_is_an_aborted_test_by_name() {
    let checked = run("exits");
    assert!(checked.reports.is_empty(), "{}", checked.output());
    assert_eq!(checked.aborted, ["boundary::endings::exits"]);
    let last = "gpu-leak-check: 1 checked: 1 aborted\n  aborted: boundary::endings::exits\n";
    assert!(checked.child.stderr.contains(last), "{}", checked.output());
}

#[test]
fn a_test_killed_in_the_middle_is_aborted_by_name_in_the_next_report() {
    let directory = tempfile::tempdir().unwrap();
    let next = |test: &str| {
        let run = Run::of(&format!("boundary::endings::{test}"))
            .env("GPU_LEAK_CHECK_OUTPUT", directory.path())
            .env("GPU_LEAK_CHECK_RUN", "one");
        run.run().stderr
    };
    let killed = next("is_killed");
    assert!(!killed.contains("gpu-leak-check:"), "{killed}");
    let reported = "aborted: boundary::endings::is_killed\n";
    let first = next("does_nothing");
    assert!(first.contains(reported), "{first}");
    let second = next("does_nothing");
    assert!(!second.contains("aborted"), "reported twice: {second}");
}

#[gpu_leak_check]
#[ignore = "ends its process"]
#[test]
fn is_killed() {
    std::process::abort();
}

#[gpu_leak_check]
#[ignore = "run in a process of its own"]
#[test]
fn does_nothing() {}

#[gpu_leak_check]
#[ignore = "ends its process"]
#[test]
fn exits() {
    context();
    std::process::exit(0);
}

#[test]
fn a_forked_child_reports_nothing_and_does_not_affect_its_parent() {
    // A forked child cannot use a real driver, which may even prevent the child from exiting.
    let checked = checked::on(&Fake::new(), "boundary::endings::forks");
    let output = checked.output();
    let finding = only_finding(checked.report(), &output);
    let found = (finding.kind, finding.count, finding.bytes);
    assert_eq!(found, (FindingKind::Leaked, 1, 8), "{output}");
    assert!(checked.aborted.is_empty(), "{output}");
    let last_lines = checked.child.stderr.matches("1 checked: 1 leaked");
    assert_eq!(last_lines.count(), 1, "{output}");
}

#[test]
fn a_check_in_a_forked_child_has_measured_nothing() {
    let checked = checked::on(&Fake::new(), "boundary::endings::checks_in_a_forked_child");
    let output = checked.output();
    let mut reports = checked.reports.iter();
    let report = reports.find(|it| it.test == "child").expect(&output);
    assert_eq!(report.status, CheckStatus::NotMeasured, "{output}");
    let reason = report.reason.as_ref().expect("a reason");
    assert_eq!(reason.code, Code::Unheard, "{output}");
}

#[ignore = "leaks on purpose"]
#[test]
fn checks_in_a_forked_child() {
    context();
    Check::new("parent").run(|| free(allocate(8).unwrap()).unwrap());
    let Some(child) = fork() else {
        Check::new("child").run(|| _ = allocate(100));
        std::process::exit(0);
    };
    wait_for(child);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn forks() {
    leak();
    for code in [0, 7] {
        let Some(child) = fork() else {
            // No check judges the child's allocations, and the child ends without running exit
            // handlers.
            let _ = allocate(100);
            match code {
                0 => return,
                code => std::process::exit(code),
            }
        };
        assert_eq!(wait_for(child), code);
    }
}
