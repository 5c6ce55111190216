//! JUnit, as CI systems read it: a suite a program, a case a check.

use std::time::Duration;

use gpu_leak_check::report::model::{Report, Verdict};
use gpu_leak_check::report::text;
use gpu_leak_check::report::{Sources, Style, headline};
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite, XmlString};

use super::Rendering;
use crate::exit::{Failure, Outcome};
use crate::run::{Process, Run};
use crate::verdicts;

/// Who says so.
const NAME: &str = "gpu-leak-check";
pub(super) fn render(run: &Run, how: &Rendering) -> Outcome<String> {
    let mut junit = quick_junit::Report::new(NAME);
    let mut binaries: Vec<&str> = run.processes.iter().map(|it| it.binary.as_str()).collect();
    binaries.sort_unstable();
    binaries.dedup();
    for binary in binaries {
        let mut suite = TestSuite::new(binary);
        // Under nextest, a process a test.
        for process in run.processes.iter().filter(|it| it.binary == binary) {
            add(&mut suite, process, how);
        }
        junit.add_test_suite(suite);
    }
    let text = junit.to_string();
    text.map_err(|why| Failure::usage(format!("JUnit cannot be written: {why}")))
}

fn add(suite: &mut TestSuite, process: &Process, how: &Rendering) {
    for report in &process.reports {
        suite.add_test_case(case(report, &process.binary, how));
    }
    for began in &process.aborted {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status
            .set_type(Verdict::Aborted.name())
            .set_message("gpu leak check: aborted: the process ended inside the test");
        let mut case = TestCase::new(began.test.as_str(), status);
        case.set_classname(process.binary.as_str());
        suite.add_test_case(case);
    }
}

fn case(report: &Report, binary: &str, how: &Rendering) -> TestCase {
    let told = || {
        let how = text::Rendering {
            style: Style::PLAIN,
            sources: Sources::below(&how.root),
        };
        XmlString::new(text::to_string(report, &how))
    };
    let failed = |kind| {
        let mut status = TestCaseStatus::non_success(kind);
        status
            .set_type(report.verdict.name())
            .set_message(headline(report))
            .set_description(told());
        status
    };
    let status = if report.verdict == Verdict::Aborted {
        failed(NonSuccessKind::Error)
    } else if verdicts::fails(report.verdict) {
        failed(NonSuccessKind::Failure)
    } else if verdicts::is_unmeasured(report.verdict) {
        let mut status = TestCaseStatus::skipped();
        status
            .set_type(report.verdict.name())
            .set_message(headline(report))
            .set_description(told());
        status
    } else {
        TestCaseStatus::success()
    };
    let mut case = TestCase::new(report.test.as_str(), status);
    case.set_classname(binary);
    // What the check cost: how long the body ran, the test runner says.
    let overhead = report.overhead_ms / 1000.0;
    case.set_time(Duration::try_from_secs_f64(overhead).unwrap_or_default());
    if report.verdict == Verdict::FirstUse {
        case.set_system_out(told());
    }
    case
}
