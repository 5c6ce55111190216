//! What the code under test can declare about a resource: that it may stay, or that it now belongs
//! to other code.

mod allowed;
mod driver;
mod handed_over;
mod many;
mod placed;
mod versions;

use gpu_leak_check::report::check_report::{AllowedBy, Finding, FindingKind, Report};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;

/// Runs a test of this module, in a process without a GPU.
fn run(test: &str) -> Checked {
    checked::finish(Run::of(&format!("hooks::{test}")))
}

/// Returns the kind and the bytes of each finding.
fn found(report: &Report) -> Vec<(FindingKind, u64)> {
    let findings = report.findings.iter();
    findings
        .map(|finding| (finding.kind, finding.bytes))
        .collect()
}

/// Whether a finding is allowed for this reason.
fn is_for(finding: &Finding, reason: &str) -> bool {
    finding.kind == FindingKind::Allowed && finding.allowed_by == Some(AllowedBy::the_code(reason))
}

/// Fails unless the test passed, and its findings are allowed and have these numbers of bytes.
#[track_caller]
fn assert_allowed(checked: &Checked, bytes: &[u64]) {
    assert!(checked.child.status.success(), "{}", checked.output());
    let report = checked.report();
    let expected: Vec<_> = bytes
        .iter()
        .map(|bytes| (FindingKind::Allowed, *bytes))
        .collect();
    assert_eq!(found(report), expected, "{}", checked.output());
}
