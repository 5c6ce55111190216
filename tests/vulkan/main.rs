//! The leaks that a check finds in programs that use Vulkan. On a machine without a GPU, the driver
//! is lavapipe, a conforming driver that runs on the processor.
#![expect(unsafe_code, reason = "Vulkan's interface is C")]

mod beside_cuda;
mod cases;
mod holders;
mod memory;
mod names;
mod objects;
mod parents;
mod places;
mod random;
mod validation_layer;
mod ways;

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_tests::checked::Checked;
use gpu_leak_vulkan_tests::run_with;

/// Creates the objects that exist before a check begins.
#[gpu_leak_check::warmup]
fn opens_the_device() {
    objects::shared();
}

/// The message if a call that is expected to succeed fails.
const WORKS: &str = "Vulkan does this";

/// Runs a leaking test in a process of its own, and compares the kinds, counts and bytes that
/// its check found. Returns `None` if there is no Vulkan device.
#[track_caller]
fn found(test: &str, expected: &[(Kind, u64, u64)]) -> Option<Checked> {
    found_with(test, expected, &[])
}

/// Like [`found`], but sets environment variables.
#[track_caller]
fn found_with(
    test: &str,
    expected: &[(Kind, u64, u64)],
    variables: &[(&str, &str)],
) -> Option<Checked> {
    let checked = run_with(test, variables)?;
    let output = checked.output();
    let report = checked.report();
    let leaked = CheckStatus::Found(FindingKind::Leaked);
    assert_eq!(report.status, leaked, "{output}");
    let found: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| finding.kind == FindingKind::Leaked)
        .map(|it| (it.resource.expect("a kind"), it.count, it.bytes))
        .collect();
    assert_eq!(found, expected, "{output}");
    Some(checked)
}

/// Runs a test in a process of its own, and fails unless its check is clean.
#[track_caller]
fn is_clean(test: &str) {
    if let Some(checked) = run_with(test, &[]) {
        checked.assert_clean();
    }
}
