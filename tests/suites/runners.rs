//! The suite of forty tests under cargo-nextest. With a process for each test, with attempts and
//! repetitions, and from an archive that runs elsewhere, the verdicts are the same as under libtest
//! with the same configuration.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind, Report};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::nextest::Nextest;

use super::shared::{LEAKING, LEAKS, SUITE, TESTS, plans};
use super::{DEVICE, devices};

/// A nextest configuration in which every test runs, even after a failure.
const CONFIG: &str = "[profile.default]\nfail-fast = false\n";
/// nextest's exit code if a test failed.
const FAILED: i32 = 100;

/// Prepares a run of those tests of the suite whose names have this prefix.
fn suite(beginning: &str) -> Option<Nextest> {
    let filter = format!("test(/^{SUITE}::{beginning}/)");
    Nextest::of_this_program("suites", &filter, CONFIG)
}

/// Returns, for each test, how many times it had this verdict.
fn by_status(checked: &Checked, status: CheckStatus) -> BTreeMap<&str, usize> {
    let mut tests = BTreeMap::new();
    let reports = checked.reports.iter();
    for report in reports.filter(|report| report.status == status) {
        *tests.entry(name(report)).or_default() += 1;
    }
    tests
}

fn name(report: &Report) -> &str {
    report.test.rsplit("::").next().unwrap_or_default()
}

#[test]
fn first_runs_under_nextest_fail_nothing_and_report_first_use_once() {
    for device in devices() {
        let Some(nextest) = suite("") else { return };
        let checked = nextest.env(DEVICE, device).run();
        let output = checked.output();
        assert!(checked.child.status.success(), "{output}");
        assert_eq!(checked.reports.len(), TESTS, "{output}");
        for report in &checked.reports {
            assert_eq!(
                report.status,
                CheckStatus::Found(FindingKind::FirstUse),
                "{report:#?}"
            );
            assert_eq!(plans(report).count(), 1, "{report:#?}");
        }
    }
}

#[test]
fn if_first_use_fails_nextest_fails_each_test_with_the_remedies() {
    let Some(nextest) = suite("t0") else { return };
    let nextest = nextest.env(DEVICE, "embedded");
    let checked = nextest.env("GPU_LEAK_CHECK_FIRST_USE", "fail").run();
    let output = checked.output();
    assert_eq!(checked.child.status.code(), Some(FAILED), "{output}");
    assert!(output.contains("10 failed"), "{output}");
    for remedy in ["#[gpu_leak_check::warmup]", "before the first check"] {
        assert!(output.contains(remedy), "{output}");
    }
}

#[test]
fn one_true_leak_fails_under_nextest_and_each_attempt_is_judged() {
    for (leaks, code) in [("always", FAILED), ("once", 0)] {
        let Some(nextest) = suite("t1") else { return };
        let nextest = nextest.env(DEVICE, "embedded").env(LEAKS, leaks);
        let checked = nextest.arg("--retries=1").run();
        let output = checked.output();
        assert_eq!(checked.child.status.code(), Some(code), "{output}");
        let leaked = by_status(&checked, CheckStatus::Found(FindingKind::Leaked));
        let attempts = if code == FAILED { 2 } else { 1 };
        assert_eq!(leaked, BTreeMap::from([(LEAKING, attempts)]), "{output}");
        // The reports are those of the other tests and of both attempts of the leaking one.
        assert_eq!(checked.reports.len(), 11, "{output}");
    }
}

#[test]
fn a_stress_run_gives_the_same_verdict_each_time() {
    let Some(nextest) = suite("t1[67]") else {
        return;
    };
    let nextest = nextest.env(DEVICE, "embedded").env(LEAKS, "always");
    let checked = nextest.arg("--stress-count=3").run();
    let output = checked.output();
    assert_eq!(checked.child.status.code(), Some(FAILED), "{output}");
    let leaked = by_status(&checked, CheckStatus::Found(FindingKind::Leaked));
    assert_eq!(leaked, BTreeMap::from([(LEAKING, 3)]), "{output}");
    let first_use = by_status(&checked, CheckStatus::Found(FindingKind::FirstUse));
    assert_eq!(first_use, BTreeMap::from([("t16", 3)]), "{output}");
}

/// Creates a workspace with the layout of this one, which contains only the configuration of
/// checks.
fn copied_workspace(directory: &Path) {
    let package = directory.join("tests");
    fs::create_dir_all(&package).expect("a directory");
    fs::write(directory.join("Cargo.toml"), "[workspace]\n").expect("a file");
    fs::write(package.join("Cargo.toml"), "[package]\n").expect("a file");
    let settings = "[check]\ntolerance = '16 MiB'\nreserved_tolerance = '64 MiB'\n";
    fs::write(directory.join("gpu-leak-check.toml"), settings).expect("a file");
}

#[test]
fn an_archive_that_runs_elsewhere_reads_the_configuration_there_as_libtest_does() {
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    copied_workspace(elsewhere.path());
    let Some(nextest) = suite("t17") else { return };
    let nextest = nextest.env(DEVICE, "embedded").env(LEAKS, "always");
    let under_nextest = nextest.elsewhere(elsewhere.path()).run();
    let by_libtest = Run::of(&format!("{SUITE}::{LEAKING}"))
        .env(DEVICE, "embedded")
        .env(LEAKS, "always")
        .env("CARGO_MANIFEST_DIR", elsewhere.path().join("tests"));
    for checked in [under_nextest, checked::finish(by_libtest)] {
        let output = checked.output();
        assert!(checked.child.status.success(), "{output}");
        let report = checked.report();
        // What the test leaves is within the tolerance that the copied file sets.
        assert_eq!(report.status, CheckStatus::Clean, "{output}");
        let notes = report.notes.join("\n");
        assert!(
            notes.contains("within the tolerance of 16.0 MiB"),
            "{output}"
        );
        assert_eq!(
            report.configured_by.as_deref(),
            Some("gpu-leak-check.toml"),
            "{output}"
        );
    }
}
