//! Leaks that real programs had, and alarms that were false, each planted anew in a few lines and named after
//! the report of it. What the cause was in the program is in the words of its maintainers.

#![expect(
    unsafe_code,
    reason = "the driver's own calls, as the programs made them"
)]

mod allocators;
mod failed_calls;
mod false_alarms;
mod handles;
mod in_kernel_heap;
mod memory;

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::model::{Finding, FindingKind, Report};
use gpu_leak_tests::checked::{self, Checked};

/// Runs a body of the module at this path in a process of its own.
fn run(module: &str, body: &str) -> Checked {
    let (_, module) = module.split_once("::").expect("a crate and its module");
    checked::run(&format!("{module}::{body}"))
}

/// Fails unless the test failed, and returns what its check said.
#[track_caller]
fn failed(checked: &Checked) -> &Report {
    assert!(!checked.child.status.success(), "{}", checked.story());
    checked.report()
}

/// The one finding about this kind.
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
            checked.story()
        );
    };
    finding
}

/// Fails unless a leak of this kind, count and size was found, and nothing else.
#[track_caller]
fn assert_only_leak(checked: &Checked, kind: Kind, count: u64, bytes: u64) {
    let finding = of_kind(checked, kind);
    assert_eq!(finding.kind, FindingKind::Leaked, "{}", checked.story());
    assert_eq!(
        (finding.count, finding.bytes),
        (count, bytes),
        "{}",
        checked.story()
    );
    assert_eq!(checked.report().findings.len(), 1, "{}", checked.story());
}
