//! Each external call of the harness fails in turn: every driver function that it calls, and its
//! requests to the operating system. The check still finds a planted leak, or says why it cannot.
//! It never reports a leak in a body that leaves nothing. Nothing ends the process.

mod allocator;
mod bodies;
mod foreign;
mod system;

use std::process::ExitStatus;

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_tests::checked::Checked;

/// The text that a body prints when it has reached its end.
const CAME_TO_ITS_END: &str = "the body came to its end";

/// Fails unless the process ended normally and nothing in the harness panicked.
#[track_caller]
fn assert_survived(checked: &Checked, fault: &str) {
    let output = checked.output();
    assert!(ended_by_itself(checked.child.status), "{fault}: {output}");
    let panicked = checked.child.stderr.lines().find(|line| {
        line.contains("panicked at") && (line.contains("harness/") || line.contains("library/"))
    });
    assert_eq!(panicked, None, "{fault}: {output}");
    assert_eq!(checked.aborted, [""; 0], "{fault}: {output}");
}

/// Whether the process ended with an exit code, and not by a signal.
fn ended_by_itself(status: ExitStatus) -> bool {
    status.code().is_some()
}

/// Fails if the report neither contains the planted leak of `bytes` nor gives a reason.
#[track_caller]
fn assert_not_missed(checked: &Checked, bytes: u64, fault: &str) {
    assert_survived(checked, fault);
    let output = checked.output();
    if !checked.child.stdout.contains(CAME_TO_ITS_END) {
        // The fault also affected the body, whose own panic is the outcome.
        assert!(!checked.child.status.success(), "{fault}: {output}");
        return;
    }
    let report = checked.report();
    match report.status {
        CheckStatus::Found(FindingKind::Leaked) => {
            let findings = report.findings.iter();
            let leaks = findings.filter(|it| is_leak_of(it, bytes)).count();
            assert_eq!(leaks, 1, "{fault}: {output}");
            assert!(!checked.child.status.success(), "{fault}: {output}");
        }
        CheckStatus::NotMeasured | CheckStatus::Inconclusive => assert_explained(checked, fault),
        _ => panic!("{fault}: {output}"),
    }
}

fn is_leak_of(finding: &gpu_leak_check::report::check_report::Finding, bytes: u64) -> bool {
    finding.kind == FindingKind::Leaked && finding.bytes == bytes
}

/// Fails if the check reports a leak in a body that leaves nothing. `may_keep` is for faults that
/// make the driver keep something for good.
#[track_caller]
fn assert_no_false_alarm(checked: &Checked, may_keep: bool, fault: &str) {
    assert_survived(checked, fault);
    let output = checked.output();
    if !checked.child.stdout.contains(CAME_TO_ITS_END) {
        assert!(!checked.child.status.success(), "{fault}: {output}");
        return;
    }
    match checked.report().status {
        CheckStatus::Clean => assert!(checked.child.status.success(), "{fault}: {output}"),
        CheckStatus::NotMeasured | CheckStatus::Inconclusive => assert_explained(checked, fault),
        CheckStatus::Found(FindingKind::FirstUse) if may_keep => {}
        _ => panic!("{fault}: {output}"),
    }
}

/// Fails unless the report of a check without a result says what is wrong and what to do.
#[track_caller]
fn assert_explained(checked: &Checked, fault: &str) {
    let output = checked.output();
    let reason = checked.report().reason.as_ref().expect(&output);
    assert!(
        !reason.what.is_empty() && !reason.remedy.is_empty(),
        "{fault}: {output}"
    );
    assert!(
        checked.child.stderr.contains(&reason.what),
        "{fault}: nothing is reported\n{output}"
    );
}
