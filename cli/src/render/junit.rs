//! JUnit XML, as CI systems read it: a suite for each program and a case for each check, with the
//! earlier attempts of a retried test.
//!
//! The output follows [Jenkins' schema][1], the strictest of the schemas that CI systems validate
//! against: a case has no properties, and the root has no count of skipped cases. So the figures of
//! all cases are properties of their suite, named `TEST/DEVICE/LAYER/FIGURE/peak` and
//! `…/difference`, in bytes or a number of handles.
//!
//! [1]: https://github.com/jenkinsci/xunit-plugin/blob/master/src/main/resources/org/jenkinsci/plugins/xunit/types/model/xsd/junit-10.xsd

use std::time::Duration;

use gpu_leak_check::report::check_report::{CheckStatus, Outcome, Report};
use gpu_leak_check::report::escape::spelled_out;
use gpu_leak_check::report::run_file::RunFile;
use gpu_leak_check::report::text;
use gpu_leak_check::report::{Sources, Style, headline};
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestRerun, TestSuite, XmlString};

use super::Settings;
use crate::exit::{ExitResult, Failure};
use crate::output::marked;
use crate::overview::{Overview, outcome};
use crate::run::Process;

/// The name of the report.
const NAME: &str = "gpu-leak-check";
/// The message of a check that did not end.
const ABORTED: &str = "gpu leak check: aborted: the process ended inside the test";

pub(super) fn render(overview: &Overview<'_>, how: &Settings) -> ExitResult<String> {
    let run = overview.run;
    let mut junit = quick_junit::Report::new(NAME);
    let mut binaries: Vec<&str> = run.processes.iter().map(|it| it.binary.as_str()).collect();
    binaries.sort_unstable();
    binaries.dedup();
    for binary in binaries {
        let mut suite = TestSuite::new(spelled_out(binary));
        for (label, text) in run.environment() {
            suite.add_property((label, &*text));
        }
        // nextest runs each test in its own process.
        for process in run.processes.iter().filter(|it| it.binary == binary) {
            add(&mut suite, process, run.attempts_before(process), how);
        }
        junit.add_test_suite(suite);
    }
    let problems: Vec<_> = run.problems.iter().map(|it| spelled_out(it)).collect();
    if let Some(first) = problems.first() {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status
            .set_type("incomplete")
            .set_message(first.as_str())
            .set_description(problems.join("\n"));
        let mut suite = TestSuite::new(NAME);
        suite.add_test_case(TestCase::new("the results are complete", status));
        junit.add_test_suite(suite);
    }
    let text = junit.to_string();
    let text = text.map_err(|why| Failure::cannot_write("JUnit", why))?;
    // The first attribute with this name belongs to the root.
    let skipped = format!(" skipped=\"{}\"", junit.skipped);
    Ok(text.replacen(&skipped, "", 1))
}

fn add(suite: &mut TestSuite, process: &Process, earlier: &[Process], how: &Settings) {
    for report in &process.file.reports {
        for (figure, value) in figures(report) {
            suite.add_property((spelled_out(&figure), value.to_string()));
        }
        let mut case = case(report, &process.binary, how);
        case.status.add_reruns(reruns(&report.test, earlier, how));
        suite.add_test_case(case);
    }
    for began in &process.file.aborted {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status
            .set_type(CheckStatus::Aborted.name())
            .set_message(ABORTED)
            .add_reruns(reruns(&began.test, earlier, how));
        let mut case = TestCase::new(spelled_out(&began.test), status);
        case.set_classname(spelled_out(&process.binary));
        suite.add_test_case(case);
    }
}

/// Returns the earlier attempts at `test` that failed.
fn reruns(test: &str, earlier: &[Process], how: &Settings) -> Vec<TestRerun> {
    let mut reruns = Vec::new();
    for RunFile {
        reports, aborted, ..
    } in earlier.iter().map(|it| &it.file)
    {
        let of_it = reports.iter().filter(|it| it.test == test);
        reruns.extend(of_it.filter_map(|it| rerun(it, how)));
        let ended = aborted.iter().filter(|it| it.test == test);
        reruns.extend(ended.map(|_| aborted_run()));
    }
    reruns
}

/// Returns the peaks of a test, and how much more was held at its end than at its beginning.
fn figures(report: &Report) -> Vec<(String, i128)> {
    let rows = report.devices.iter().flat_map(|device| {
        let rows = device.rows.iter();
        rows.map(move |row| (device.place, row))
    });
    let figures = rows.flat_map(|(place, row)| {
        let path = |last: &str| {
            let figure = row.figure.name();
            format!("{}/{place}/{}/{figure}/{last}", report.test, row.layer)
        };
        let peak = row.peak.filter(|peak| *peak > row.baseline);
        let peak = peak.map(|peak| (path("peak"), i128::from(peak)));
        let difference = i128::from(row.after) - i128::from(row.baseline);
        let difference = (difference != 0).then(|| (path("difference"), difference));
        [peak, difference].into_iter().flatten()
    });
    figures.collect()
}

fn description(report: &Report, how: &Settings) -> XmlString {
    let how = text::Rendering {
        style: Style::PLAIN,
        sources: Sources::below(&how.root),
    };
    let text = text::to_string(report, &how);
    XmlString::new(text.lines().map(marked).collect::<Vec<_>>().join("\n"))
}

/// Returns the JUnit element for a case that does not pass: a failure if findings failed the test,
/// an error if its process ended during the test or the test could not be judged.
fn non_success(report: &Report) -> Option<NonSuccessKind> {
    match outcome(report) {
        Outcome::Pass | Outcome::Warn => None,
        Outcome::Fail if report.status == CheckStatus::Aborted => Some(NonSuccessKind::Error),
        Outcome::Fail if report.status.is_unmeasured() => Some(NonSuccessKind::Error),
        Outcome::Fail => Some(NonSuccessKind::Failure),
    }
}

fn case(report: &Report, binary: &str, how: &Settings) -> TestCase {
    let is_skipped = report.status.is_unmeasured();
    let mut status = match non_success(report) {
        Some(kind) => TestCaseStatus::non_success(kind),
        None if is_skipped => TestCaseStatus::skipped(),
        None => TestCaseStatus::success(),
    };
    if !matches!(status, TestCaseStatus::Success { .. }) {
        status
            .set_type(report.status.name())
            .set_message(headline(report))
            .set_description(description(report, how));
    }
    let passes = matches!(status, TestCaseStatus::Success { .. });
    let mut case = TestCase::new(spelled_out(&report.test), status);
    case.set_classname(spelled_out(binary));
    // The time that the check itself took. The test runner reports the time of the body.
    let overhead = report.overhead_ms / 1000.0;
    case.set_time(Duration::try_from_secs_f64(overhead).unwrap_or_default());
    if passes && outcome(report) == Outcome::Warn {
        case.set_system_out(description(report, how));
    }
    case
}

/// Converts the report of an earlier attempt that failed.
fn rerun(report: &Report, how: &Settings) -> Option<TestRerun> {
    let mut rerun = TestRerun::new(non_success(report)?);
    rerun
        .set_type(report.status.name())
        .set_message(headline(report))
        .set_description(description(report, how));
    Some(rerun)
}

fn aborted_run() -> TestRerun {
    let mut rerun = TestRerun::new(NonSuccessKind::Error);
    rerun
        .set_type(CheckStatus::Aborted.name())
        .set_message(ABORTED);
    rerun
}
