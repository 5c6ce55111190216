//! Leaks and false alarms that occurred in real programs. Each is reproduced in a few lines and
//! named after its report. The causes are those that the maintainers reported.

#![expect(unsafe_code, reason = "calls the driver as the programs did")]

mod allocators;
mod failed_calls;
mod false_alarms;
mod growth;
mod handles;
mod in_kernel_heap;
mod memory;

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::{Finding, FindingKind, Report};
use gpu_leak_tests::checked::{self, Checked};

/// Runs the test `body` of this module in a separate process.
fn run(module: &str, body: &str) -> Checked {
    let (_, module) = module.split_once("::").expect("a crate and its module");
    checked::run(&format!("{module}::{body}"))
}

/// Fails unless the test failed, and returns the report of its check.
#[track_caller]
fn failed(checked: &Checked) -> &Report {
    assert!(!checked.child.status.success(), "{}", checked.output());
    checked.report()
}

/// Returns the only finding about a resource of this kind.
#[track_caller]
fn of_kind(checked: &Checked, kind: Kind) -> &Finding {
    let matching = failed(checked).findings.iter();
    let matching: Vec<_> = matching
        .filter(|finding| finding.resource == Some(kind))
        .collect();
    let [finding] = matching[..] else {
        panic!(
            "{} findings of {kind:?}\n{}",
            matching.len(),
            checked.output()
        );
    };
    finding
}

/// Fails unless the only finding is a leak of this kind, count and size.
#[track_caller]
fn assert_only_leak(checked: &Checked, kind: Kind, count: u64, bytes: u64) {
    let finding = of_kind(checked, kind);
    assert_eq!(finding.kind, FindingKind::Leaked, "{}", checked.output());
    assert_eq!(
        (finding.count, finding.bytes),
        (count, bytes),
        "{}",
        checked.output()
    );
    assert_eq!(checked.report().findings.len(), 1, "{}", checked.output());
}
