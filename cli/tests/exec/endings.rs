//! However a program ends, its leaks are reported and its exit status is passed on.

use gpu_leak_check::report::check_report::{CheckStatus, FindingKind};
use gpu_leak_tests::fake::Fake;

use super::{line_of, ran};

#[test]
fn the_program_s_own_exit_code_is_passed_on() {
    let silent = ran(&Fake::new(), &[], "fails");
    assert_eq!(silent.reported.code, Some(5), "{:?}", silent.reported);
    let leaks = ran(&Fake::new(), &[], "one-and-fails");
    assert_eq!(leaks.reported.code, Some(5), "{:?}", leaks.reported);
    assert!(
        leaks.reported.stderr.contains("1 leaked"),
        "{:?}",
        leaks.reported
    );
}

#[test]
fn the_code_for_findings_can_be_chosen() {
    let chosen = ran(&Fake::new(), &["--error-exitcode", "42"], "one");
    assert_eq!(chosen.reported.code, Some(42), "{:?}", chosen.reported);
    let reported_only = ran(&Fake::new(), &["--error-exitcode=0"], "one");
    assert_eq!(
        reported_only.reported.code,
        Some(0),
        "{:?}",
        reported_only.reported
    );
}

#[test]
fn a_killed_program_leaves_its_last_snapshot() {
    let ran = ran(&Fake::new(), &["--every", "0.1"], "killed");
    assert_eq!(ran.reported.code, Some(128 + 9), "{:?}", ran.reported);
    let files = ran.files();
    let snapshot = files[0].snapshot.as_ref().expect("a snapshot");
    assert_eq!(snapshot.cause, "tick");
    assert_eq!(snapshot.report.findings[0].bytes, 4096);
    assert!(
        ran.reported.stderr.contains("1 aborted"),
        "{:?}",
        ran.reported
    );
    assert!(
        ran.reported.stderr.contains("4.00 KiB device memory"),
        "{:?}",
        ran.reported
    );
}

#[test]
fn a_terminated_program_is_checked_and_ends_by_the_signal() {
    let ran = ran(&Fake::new(), &[], "terminated");
    assert_eq!(ran.reported.code, Some(128 + 15), "{:?}", ran.reported);
    let files = ran.files();
    let snapshot = files[0].snapshot.as_ref().expect("a snapshot");
    assert_eq!(snapshot.cause, "SIGTERM");
    assert_eq!(snapshot.report.findings[0].bytes, 4096);
}

/// Without special treatment, the program would continue after `raise` until the snapshot has been
/// taken.
#[test]
fn a_program_that_raises_a_signal_does_not_run_on() {
    for _ in 0..10 {
        let ran = ran(&Fake::new(), &[], "raises");
        assert_eq!(ran.reported.code, Some(128 + 15), "{:?}", ran.reported);
        let files = ran.files();
        let snapshot = files[0].snapshot.as_ref().expect("a snapshot");
        assert_eq!(snapshot.cause, "SIGTERM");
    }
}

#[test]
fn a_program_whose_first_thread_ends_early_ends_with_its_last_thread() {
    for options in [&[][..], &["--every", "0.1"]] {
        let ran = ran(&Fake::new(), options, "main-ends-first");
        assert_eq!(ran.reported.code, Some(1), "{:?}", ran.reported);
        let report = &ran.files()[0].reports[0];
        assert_eq!(report.status, CheckStatus::Found(FindingKind::Leaked));
        assert_eq!(report.findings[0].bytes, 4096);
        assert_eq!(report.findings[0].location(), allocating_line());
    }
}

#[test]
fn a_program_that_first_uses_the_driver_after_its_first_thread_has_ended_is_named() {
    let ran = ran(&Fake::new(), &[], "main-ends-before-the-driver-begins");
    assert_eq!(ran.reported.code, Some(1), "{:?}", ran.reported);
    let report = &ran.files()[0].reports[0];
    assert_eq!(report.test, "program main-ends-before-the-driver-begins");
    assert_eq!(report.findings[0].location(), allocating_line());
}

fn allocating_line() -> String {
    format!("cli/tests/exec/program.c:{}", line_of("allocated here"))
}

/// For example, a program that has dropped its privileges or changed its root directory.
#[test]
fn a_program_into_which_the_harness_cannot_be_loaded_says_so() {
    let ran = ran(&Fake::new(), &[], "opens-no-more-files");
    assert_eq!(ran.reported.code, Some(3), "{:?}", ran.reported);
    let said = "gpu-leak-check: this process is not watched: ";
    assert!(ran.reported.stderr.contains(said), "{:?}", ran.reported);
    assert!(
        ran.reported.stderr.contains("Too many open files"),
        "{:?}",
        ran.reported
    );
}

#[test]
fn a_program_that_may_no_longer_write_its_results_says_so() {
    let ran = ran(&Fake::new(), &[], "drops-its-privileges");
    if ran.reported.code == Some(78) {
        // Only a privileged user can become another one.
        return;
    }
    assert_eq!(ran.reported.code, Some(3), "{:?}", ran.reported);
    let said = "gpu-leak-check: results are not saved: cannot write ";
    assert!(ran.reported.stderr.contains(said), "{:?}", ran.reported);
    assert!(
        ran.reported.stderr.contains("Permission denied"),
        "{:?}",
        ran.reported
    );
}

#[test]
fn a_program_whose_terminal_hangs_up_leaves_a_snapshot() {
    let ran = ran(&Fake::new(), &[], "hung-up");
    assert_eq!(ran.reported.code, Some(128 + 1), "{:?}", ran.reported);
    let files = ran.files();
    let snapshot = files[0].snapshot.as_ref().expect("a snapshot");
    assert_eq!(snapshot.cause, "SIGHUP");
}

#[test]
fn the_program_s_own_signal_handler_keeps_working() {
    let ran = ran(&Fake::new(), &[], "handles-it");
    assert_eq!(ran.reported.code, Some(7), "{:?}", ran.reported);
    assert_eq!(ran.files()[0].reports[0].status, CheckStatus::Clean);
}

/// The harness's handler is the earlier one. Without the harness, there would be none.
#[test]
fn a_program_s_signal_handler_may_call_the_earlier_one() {
    let ran = ran(&Fake::new(), &[], "chains-handlers");
    assert_eq!(ran.reported.code, Some(7), "{:?}", ran.reported);
    assert_eq!(ran.files()[0].reports[0].status, CheckStatus::Clean);
}

#[test]
fn a_signal_requests_a_snapshot_and_ends_nothing() {
    let ran = ran(&Fake::new(), &[], "asked");
    assert_eq!(ran.reported.code, Some(0), "{:?}", ran.reported);
    let asked = "at SIGUSR1: gpu leak: 1 allocation, 4.00 KiB on cuda:0";
    assert!(ran.reported.stderr.contains(asked), "{:?}", ran.reported);
    let files = ran.files();
    assert_eq!(files[0].reports[0].status, CheckStatus::Clean);
    assert!(files[0].snapshot.is_none(), "it has its verdict");
}

#[test]
fn a_program_that_ends_without_exit_handlers_is_not_called_clean() {
    let ran = ran(&Fake::new(), &[], "leaves-at-once");
    assert_eq!(ran.reported.code, Some(3), "{:?}", ran.reported);
    for said in ["1 aborted", "help: an aborted process "] {
        assert!(ran.reported.stderr.contains(said), "{:?}", ran.reported);
    }
}

#[test]
fn a_forked_child_reports_nothing_about_its_parent() {
    for what in ["forks", "copies-itself"] {
        let ran = ran(&Fake::new(), &[], what);
        assert_eq!(ran.reported.code, Some(0), "{:?}", ran.reported);
        let files = ran.files();
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].reports.len(), 1, "{files:?}");
        assert_eq!(files[0].reports[0].status, CheckStatus::Clean);
    }
}

#[test]
fn a_program_that_closes_every_file_is_still_reported() {
    let ran = ran(&Fake::new(), &[], "closes-everything");
    assert_eq!(ran.reported.code, Some(1), "{:?}", ran.reported);
    assert_eq!(
        ran.files()[0].reports[0].status,
        CheckStatus::Found(FindingKind::Leaked)
    );
}
