//! Code that frees what it allocates is never reported, in a hundred consecutive checks.

mod tiny_model;

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::gpu;

/// Fails unless the test passed and all its checks were clean. One of them may instead report
/// resources that are created once and kept.
#[track_caller]
fn assert_quiet_but_for_first_use(checked: &Checked, checks: usize) {
    let output = checked.output();
    assert!(checked.child.status.success(), "{output}");
    let count = |wanted| {
        let reports = checked.reports.iter();
        reports.filter(|report| report.status == wanted).count()
    };
    let (clean, reported) = (
        count(CheckStatus::Clean),
        count(CheckStatus::Found(FindingKind::FirstUse)),
    );
    assert!(reported <= 1 && clean + reported == checks, "{output}");
}

#[test]
fn a_cublas_handle() {
    // On the stand-in, this test has no cuBLAS.
    if gpu::is_present() {
        let checked = checked::run("detects::planted::a_cublas_handle::stays_quiet");
        assert_quiet_but_for_first_use(&checked, 101);
    }
}
