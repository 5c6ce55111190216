//! Decides the outcome of a test (pass, warn or fail) from its report, and reports it.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::process::ExitCode;

use super::body::{self, End};
use super::subject::subject_of;
use crate::case::Case;
use crate::config::{Mode, Policy};
use crate::judge::{Subject, Untraced};
use crate::ledger::Place;
use crate::options::OnLeak;
use crate::report::Code;
pub(crate) use crate::report::check_report::Outcome;
use crate::report::check_report::{CheckStatus, Finding, FindingKind, Report};
use crate::report::headline;
use crate::report::text::{self, Rendering};
use crate::sync::{Mutex, locked};

/// The result of a check.
#[derive(Debug)]
pub(crate) struct Checked {
    /// How the body ended.
    pub(crate) end: End,
    pub(crate) report: Report,
    /// The outcome according to the policy.
    pub(crate) outcome: Outcome,
    /// The message with which the check fails its test; `None` if the check does not fail it, or if
    /// the body itself has failed.
    pub(crate) failed: Option<String>,
}

/// Determines the outcome of a report according to the policy.
pub(crate) fn weigh(report: &Report, policy: &Policy, untraced: Option<&Untraced>) -> Outcome {
    match report.status {
        CheckStatus::Found(FindingKind::FirstUse) => by_policy(policy.first_use),
        CheckStatus::Inconclusive | CheckStatus::NotMeasured => {
            let something_to_see = untraced.is_none_or(|untraced| untraced.driver_in_use);
            // A sum without an owner does not fail a test, but fails the command under `--strict`.
            let is_shared = report
                .reason
                .as_ref()
                .is_some_and(|it| it.code == Code::Shared);
            match policy.mode {
                Mode::Require => Outcome::Fail,
                Mode::Auto if something_to_see && policy.ci && !is_shared => Outcome::Fail,
                // Findings that could not be confirmed result in a warning.
                _ if report.findings.iter().any(Finding::is_unconfirmed) => Outcome::Warn,
                Mode::Auto | Mode::Off => Outcome::Pass,
            }
        }
        // `on_leak` applies only to leaks, and a test with an unexpected result may have none.
        status if status.is_failure() && status != CheckStatus::Unexpected => {
            by_policy(policy.on_leak)
        }
        status => status.default_outcome(),
    }
}

const fn by_policy(on_leak: OnLeak) -> Outcome {
    match on_leak {
        OnLeak::Fail => Outcome::Fail,
        OnLeak::Warn => Outcome::Warn,
    }
}

/// Reports a check that is over. Returns how its body ended, and the report.
///
/// # Panics
///
/// Panics if the check fails its test.
pub(crate) fn report(subject: &Subject, checked: Checked) -> (End, Report) {
    if let Some(failed) = checked.failed {
        fail_at(subject, failed, &story(&checked.report));
    }
    print_beside(&checked.report, checked.outcome);
    (checked.end, checked.report)
}

/// Ends the test as its body ended.
///
/// # Panics
///
/// Panics if the body panicked although it should not have, or did not panic although it should
/// have.
pub(crate) fn end_unjudged(case: &Case, end: End) -> ExitCode {
    match (end, case.should_panic) {
        (End::Passed, None) => ExitCode::SUCCESS,
        (End::Failed(code), None) => code,
        (End::Panicked(payload), None) => resume_unwind(payload),
        (End::Panicked(payload), Some(wanted)) => match body::mismatch(&*payload, wanted) {
            Some(why) => fail(case, why, ""),
            None => ExitCode::SUCCESS,
        },
        (End::Passed | End::Failed(_), Some(_)) => fail(case, "test did not panic as expected", ""),
    }
}

/// Prints the report without failing the test.
pub(crate) fn print_beside(report: &Report, outcome: Outcome) {
    // A nested check that failed has printed its own report.
    let is_reported = report.failed_inside.is_some() && report.findings.is_empty();
    if outcome != Outcome::Pass && !is_reported {
        tell(&format!("{}\n\n{}", headline(report), story(report)));
    }
}

/// Prints to standard error, where the test's output is expected.
#[expect(
    clippy::print_stderr,
    reason = "libtest captures it and shows it with the test"
)]
pub(crate) fn tell(text: &str) {
    eprintln!("{text}");
}

/// Renders the report for this process's standard error. If a primary context was kept, only the
/// first report mentions it, because the whole process shares the context.
pub(crate) fn story(report: &Report) -> String {
    static REPORTED: Mutex<BTreeSet<Place>> = Mutex::new(BTreeSet::new());
    let mut report = report.clone();
    let mut reported = locked(&REPORTED);
    report.primaries.retain(|kept| reported.insert(kept.place));
    text::to_string(&report, &Rendering::for_stderr())
}

/// Fails the test in the way a panic would. The panic line is printed here and not by the panic
/// hook, because the report must be part of the failure message, and runners use the text after the
/// last such line as the message.
pub(crate) fn fail(case: &Case, headline: impl Into<String>, story: &str) -> ! {
    fail_at(&subject_of(case), headline, story)
}

/// Like [`fail`], for a block.
pub(crate) fn fail_at(subject: &Subject, headline: impl Into<String>, story: &str) -> ! {
    // The text is moved rather than copied, because `assertion` recognises the panic by the address
    // of the text.
    let headline: String = headline.into();
    let at = format!("{}:{}:{}", subject.file, subject.line, subject.column);
    tell(&format!(
        "\nthread '{}' panicked at {at}: {headline}\n\n{story}",
        subject.test
    ));
    resume_unwind(Box::new(headline))
}
