//! The boundary table of the design: what is a test's own, what is not, and what nobody can know. Each
//! row is a test named after it; its body is an ignored test beside it, run in a process of its own.

mod blind;
mod contexts;
mod driver;
mod endings;
mod facts;
mod failures;
mod libraries;
mod owners;
mod whole;

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::model::{Finding, Report, Verdict};
use gpu_leak_tests::checked::Checked;

/// Fails unless the test passed, its check was clean, and one of its notes says this.
#[track_caller]
fn assert_clean_with_note(checked: &Checked, part: &str) {
    checked.assert_clean();
    assert_noted_report(checked.report(), part);
}

/// The one finding of the last check of a process that failed for it.
#[track_caller]
fn assert_one_leak(checked: &Checked, kind: Kind, bytes: u64) -> &Finding {
    let story = checked.story();
    assert!(
        !checked.child.status.success(),
        "a leak fails its test\n{story}"
    );
    let report = checked.reports.last().expect("a report");
    let finding = only_finding(report, &story);
    assert_eq!(finding.verdict, Verdict::Leaked, "{story}");
    assert_eq!(
        (finding.kind, finding.count, finding.bytes),
        (Some(kind), 1, bytes),
        "{story}"
    );
    finding
}

#[track_caller]
fn only_finding<'a>(report: &'a Report, story: &str) -> &'a Finding {
    let [finding] = &report.findings[..] else {
        panic!("{} findings\n{story}", report.findings.len());
    };
    finding
}

#[track_caller]
fn assert_noted_report(report: &Report, part: &str) {
    assert!(
        report.notes.iter().any(|note| note.contains(part)),
        "no note with `{part}` in {:?}",
        report.notes
    );
}

#[track_caller]
fn assert_noted(finding: &Finding, part: &str) {
    assert!(
        finding.notes.iter().any(|note| note.contains(part)),
        "no note with `{part}` in {:?}",
        finding.notes
    );
}
