//! Verdicts are correct however checks are combined. No leak passes because a check is nested,
//! because two runs differ, or because an allocator reports only a sum. No test fails because of
//! what another test did.
//!
//! Tests that leak on purpose are ignored. Tests next to them run them in separate processes.
//! This is a separate target because a probe affects the whole program, and some tests of other
//! targets count allocators.

mod addresses;
mod allocators;
mod blocks;
mod budgets;
mod cells;
mod code;
mod driver;
mod excuses;
mod further_runs;
mod many;
mod neighbours;
mod remains;
mod rounds;
mod second_run;
mod sums;
mod table;
mod words;

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Report};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Prepares a process without a GPU that runs a test of this program, with a short wait for
/// in-flight frees.
fn of(test: &str) -> Run {
    Run::of(test).env("GPU_LEAK_CHECK_SETTLE", "5ms")
}

fn run(test: &str) -> Checked {
    checked::finish(of(test))
}

/// Runs the ignored tests of a module of this program, up to `threads` at once.
fn run_suite(module: &str, threads: u32) -> Checked {
    let run = Run::of_all(module, threads);
    checked::finish(run.env("GPU_LEAK_CHECK_SETTLE", "5ms"))
}

/// Returns the report of the check whose name or path ends with `name`.
#[track_caller]
fn report<'a>(checked: &'a Checked, name: &str) -> &'a Report {
    let mut reports = checked.reports.iter();
    let (of_a_test, of_a_block) = (format!("::{name}"), format!(": {name}"));
    let is_it =
        |test: &str| test == name || test.ends_with(&of_a_test) || test.ends_with(&of_a_block);
    let found = reports.find(|report| is_it(&report.test));
    found.unwrap_or_else(|| panic!("no report of {name}\n{}", checked.output()))
}

/// Returns the report of the test. Fails unless it has this verdict, and its process ended
/// accordingly.
#[track_caller]
fn assert_verdict<'a>(checked: &'a Checked, test: &str, verdict: CheckStatus) -> &'a Report {
    let report = report(checked, test);
    assert_eq!(report.status, verdict, "{test}\n{}", checked.output());
    assert_eq!(
        checked.child.status.success(),
        !verdict.is_failure(),
        "{}",
        checked.output()
    );
    report
}

/// Returns the bytes of the findings with this verdict.
fn bytes(report: &Report, verdict: CheckStatus) -> u64 {
    let findings = report.findings.iter();
    let of_verdict = findings.filter(|finding| CheckStatus::Found(finding.kind) == verdict);
    of_verdict.map(|finding| finding.bytes).sum()
}

/// Fails unless the test failed because it leaked exactly this many bytes.
#[track_caller]
fn assert_leaked(checked: &Checked, test: &str, leaked: u64) {
    let report = assert_verdict(checked, test, CheckStatus::Found(FindingKind::Leaked));
    assert_eq!(
        bytes(report, CheckStatus::Found(FindingKind::Leaked)),
        leaked,
        "{}",
        checked.output()
    );
}

/// Returns the kinds of the findings in the test's report.
fn kinds(report: &Report) -> Vec<&'static str> {
    let findings = report.findings.iter();
    findings.map(|finding| finding.kind.name()).collect()
}
