//! Tests that must leak exactly a given amount.

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Outcome};

use super::shelf::{borrow, take};
use super::{headline, run};

#[test]
fn an_expected_leak_is_allowed() {
    let checked = run("expected::leaks_as_expected");
    assert!(checked.child.status.success(), "{}", checked.output());
    assert_eq!(
        checked.report().status,
        CheckStatus::Found(FindingKind::Allowed),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check(expect(count = 2, bytes = "1 KiB"))]
#[ignore = "leaks"]
#[test]
fn leaks_as_expected() {
    take(512);
    take(512);
}

#[test]
fn less_and_more_than_expected_fail_with_both_figures() {
    assert_eq!(
        headline(&run("expected::leaks_less")),
        "gpu leak check: expected to leave 2 objects, 1.00 KiB, but left 1 object, 512 B"
    );
    assert_eq!(
        headline(&run("expected::leaks_though_none_was_expected")),
        "gpu leak check: expected to leave 0 objects, but left 1 object"
    );
}

#[test]
fn a_leak_that_is_expected_and_missing_is_not_a_clean_check() {
    let checked = run("expected::leaks_nothing");
    assert_eq!(
        headline(&checked),
        "gpu leak check: expected to leave 1 object, but left 0 objects"
    );
    let report = checked.report();
    assert_eq!(report.status, CheckStatus::Unexpected, "{report:?}");
    assert_eq!(report.outcome, Some(Outcome::Fail), "{report:?}");
    assert!(!checked.child.status.success(), "{}", checked.output());
    let counted = "1 checked: 1 unexpected (expectation)";
    assert!(checked.output().contains(counted), "{}", checked.output());
}

#[gpu_leak_check(expect(count = 1))]
#[ignore = "fails"]
#[test]
fn leaks_nothing() {
    borrow(512);
}

#[gpu_leak_check(expect(count = 2, bytes = 1024))]
#[ignore = "fails"]
#[test]
fn leaks_less() {
    take(512);
}

#[gpu_leak_check(expect(count = 0))]
#[ignore = "fails"]
#[test]
fn leaks_though_none_was_expected() {
    take(512);
}
