//! Pass, warn or fail: what a report means for its test, and how that is told.

use std::panic::resume_unwind;
use std::process::ExitCode;

use super::body::{self, End};
use super::session::{Checked, subject_of};
use crate::case::Case;
use crate::config::{FirstUse, Mode, Policy};
use crate::judge::{Subject, Untraced};
use crate::options::OnLeak;
use crate::report::Code;
use crate::report::headline;
pub(crate) use crate::report::model::Outcome;
use crate::report::model::{CheckStatus, Finding, FindingKind, Report};
use crate::report::text::{self, Rendering};

/// Weighs a report by the policy.
pub(crate) fn weigh(report: &Report, policy: &Policy, untraced: Option<&Untraced>) -> Outcome {
    match report.status {
        CheckStatus::Clean | CheckStatus::Found(FindingKind::Allowed) => Outcome::Pass,
        CheckStatus::Found(FindingKind::Deferred) => Outcome::Warn,
        CheckStatus::Found(FindingKind::FirstUse) => match policy.first_use {
            FirstUse::Fail => Outcome::Fail,
            FirstUse::Warn => Outcome::Warn,
        },
        CheckStatus::Inconclusive | CheckStatus::NotMeasured => {
            let something_to_see = untraced.is_none_or(|untraced| untraced.driver_in_use);
            // A sum without an owner fails nobody's test: `--strict` of the command does.
            let is_shared = report
                .reason
                .as_ref()
                .is_some_and(|it| it.code == Code::Shared);
            match policy.mode {
                Mode::Require => Outcome::Fail,
                Mode::Auto if something_to_see && policy.ci && !is_shared => Outcome::Fail,
                // What was left and could not be confirmed is worth a look.
                _ if report.findings.iter().any(Finding::is_unconfirmed) => Outcome::Warn,
                Mode::Auto | Mode::Off => Outcome::Pass,
            }
        }
        // Every other kind of finding, and an end inside the test.
        _ => match policy.on_leak {
            OnLeak::Fail => Outcome::Fail,
            OnLeak::Warn => Outcome::Warn,
        },
    }
}

/// Ends the test as its body and the report say. The body's own failure always comes first.
///
/// # Panics
///
/// When the test fails: with the body's panic, or with the report.
pub(crate) fn conclude(case: &Case, checked: Checked) -> ExitCode {
    let Checked {
        end,
        report,
        outcome,
        unmet,
    } = checked;
    if !end.as_expected(case.should_panic) {
        tell_beside(&report, outcome);
        return end_unjudged(case, end);
    }
    if let Some(unmet) = unmet {
        fail(case, &unmet, &story(&report));
    }
    if outcome == Outcome::Fail {
        fail(case, &headline(&report), &story(&report));
    }
    tell_beside(&report, outcome);
    ExitCode::SUCCESS
}

/// Ends the test as its body says.
///
/// # Panics
///
/// When the body panicked and should not have, or the other way round.
pub(crate) fn end_unjudged(case: &Case, end: End) -> ExitCode {
    match (end, case.should_panic) {
        (End::Passed, None) => ExitCode::SUCCESS,
        (End::Failed(code), None) => code,
        (End::Panicked(payload), None) => resume_unwind(payload),
        (End::Panicked(payload), Some(wanted)) => match body::mismatch(&*payload, wanted) {
            Some(why) => fail(case, &why, ""),
            None => ExitCode::SUCCESS,
        },
        (End::Passed | End::Failed(_), Some(_)) => fail(case, "test did not panic as expected", ""),
    }
}

/// Tells what there is to tell without failing anything by it.
pub(crate) fn tell_beside(report: &Report, outcome: Outcome) {
    // What failed inside has been told there.
    let is_told = report.failed_inside.is_some() && report.findings.is_empty();
    if outcome != Outcome::Pass && !is_told {
        tell(&format!("{}\n\n{}", headline(report), story(report)));
    }
}

/// Writes this where people look for a test's words.
#[expect(
    clippy::print_stderr,
    reason = "libtest captures it and shows it with the test"
)]
pub(crate) fn tell(text: &str) {
    eprintln!("{text}");
}

/// The report as the reader of this process's errors gets it.
pub(crate) fn story(report: &Report) -> String {
    text::to_string(report, &Rendering::for_stderr())
}

/// Fails the test as a panic would. The line is written here, not by the panic hook: runners take
/// the story from what follows the last such line, and the report belongs to it.
pub(crate) fn fail(case: &Case, headline: &str, story: &str) -> ! {
    fail_at(&subject_of(case), headline, story)
}

/// As [`fail`], for a block.
pub(crate) fn fail_at(subject: &Subject, headline: &str, story: &str) -> ! {
    let at = format!("{}:{}:{}", subject.file, subject.line, subject.column);
    tell(&format!(
        "\nthread '{}' panicked at {at}: {headline}\n\n{story}",
        subject.test
    ));
    resume_unwind(Box::new(headline.to_owned()))
}
