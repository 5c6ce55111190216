//! Decides the outcome of a test (pass, warn or fail) from its report, and reports the outcome.

use std::panic::resume_unwind;
use std::process::ExitCode;

use super::body::{self, End};
use crate::case::Case;
use crate::config::{Mode, Policy};
use crate::judge::Untraced;
use crate::options::OnLeak;
pub(crate) use crate::report::check_report::Outcome;
use crate::report::check_report::{CheckStatus, Finding, FindingKind, Report};
use crate::report::text::{self, Rendering};
use crate::report::{Code, headline};

/// The result of a check.
pub(crate) struct Checked {
    /// How the body ended.
    pub(crate) end: End,
    /// The report, with its outcome.
    pub(crate) report: Report,
    /// The message with which the check fails its test; `None` if the check does not fail it, or if
    /// the body itself has failed.
    pub(crate) failed: Option<String>,
}

/// Determines the outcome of a report according to the policy.
pub(crate) fn weigh(report: &Report, policy: &Policy, untraced: Option<&Untraced>) -> Outcome {
    // The policy of the nested check has already decided that the test fails.
    if report.failed_inside.is_some() {
        return Outcome::Fail;
    }
    let mut kinds = report.findings.iter().map(|it| it.kind);
    // This applies no matter what else was found or could not be measured.
    if policy.first_use == OnLeak::Fail && kinds.any(|kind| kind == FindingKind::FirstUse) {
        return Outcome::Fail;
    }
    match report.status {
        CheckStatus::Inconclusive | CheckStatus::NotMeasured => {
            let is_driver_in_use = untraced.is_none_or(|untraced| untraced.driver_in_use);
            let is_unconfirmed = report.findings.iter().any(Finding::is_unconfirmed);
            let has_reason = |code| report.reason.as_ref().is_some_and(|it| it.code == code);
            match policy.mode {
                Mode::Require => Outcome::Fail,
                // A sum without an owner does not fail a test, but fails the command under
                // `--strict`.
                Mode::Auto if is_driver_in_use && policy.ci && !has_reason(Code::Shared) => {
                    Outcome::Fail
                }
                // Findings that could not be confirmed result in a warning.
                _ if has_reason(Code::NotRepeatable) || is_unconfirmed => Outcome::Warn,
                Mode::Auto | Mode::Off => Outcome::Pass,
            }
        }
        // `on_leak` applies only to leaks, and a test with an unexpected result may have none.
        status if status.is_failure() && status != CheckStatus::Unexpected => {
            match policy.on_leak {
                OnLeak::Fail => Outcome::Fail,
                OnLeak::Warn => Outcome::Warn,
            }
        }
        status => status.default_outcome(),
    }
}

/// Reports a check that is over. Returns how its body ended, and the report.
///
/// # Panics
///
/// Panics if the check fails its test.
pub(crate) fn report(checked: Checked) -> (End, Report) {
    if let Some(failed) = checked.failed {
        fail_with(&checked.report, failed, &rendered(&checked.report));
    }
    print_report(&checked.report);
    (checked.end, checked.report)
}

/// Ends the test in the way in which its body ended.
///
/// # Panics
///
/// Panics if the body panicked although it should not have, or did not panic although it should
/// have.
pub(crate) fn end_like_body(case: &Case, end: End) -> ExitCode {
    match (end, case.should_panic) {
        (End::Passed, None) => ExitCode::SUCCESS,
        (End::Failed(code), None) => code,
        (End::Panicked(payload), None) => resume_unwind(payload),
        (End::Panicked(payload), Some(wanted)) => match body::mismatch(&*payload, wanted) {
            Some(why) => fail(case, why),
            None => ExitCode::SUCCESS,
        },
        (End::Passed | End::Failed(_), Some(_)) => fail(case, "test did not panic as expected"),
    }
}

/// Prints the report of a check that did not pass. Does not fail the test.
pub(crate) fn print_report(report: &Report) {
    let has_passed = report.outcome.is_none_or(|it| it == Outcome::Pass);
    // A nested check that failed has printed its own report.
    let is_printed = report.failed_inside.is_some() && report.findings.is_empty();
    if !has_passed && !is_printed {
        text::tell(&format!("{}\n\n{}", headline(report), rendered(report)));
    }
}

/// Renders the report for this process's standard error.
pub(crate) fn rendered(report: &Report) -> String {
    text::to_string(report, &Rendering::for_stderr())
}

/// Fails the test in the way a panic would.
pub(crate) fn fail(case: &Case, headline: impl Into<String>) -> ! {
    let at = (case.origin.file, case.origin.line, case.origin.column);
    fail_at(case.name(), at, headline.into(), "")
}

/// Fails the test of this report in the way a panic would. Prints `details` below the panic
/// message.
pub(crate) fn fail_with(report: &Report, headline: String, details: &str) -> ! {
    let at = (report.file.as_str(), report.line, report.column);
    fail_at(&report.test, at, headline, details)
}

/// Fails `test`. The panic line is printed here and not by the panic hook, because the report must
/// be part of the failure message, and runners use the text after the last such line as the
/// message. `headline` is moved rather than copied, because `assertion` recognises the panic by the
/// address of this text.
fn fail_at(test: &str, at: (&str, u32, u32), headline: String, details: &str) -> ! {
    let message = text::panic_message(test, at, &headline);
    text::tell(&format!("{message}\n{details}"));
    resume_unwind(Box::new(headline))
}

#[cfg(test)]
mod tests {
    use super::{Outcome, weigh};
    use crate::config::{CheckSettings, Policy};
    use crate::ledger::{Layer, Place};
    use crate::options::OnLeak;
    use crate::report::check_report::{
        CheckStatus, Code, Finding, FindingKind, Reason, Report, Site,
    };

    /// Returns the outcome of an inconclusive check with this reason and one-time set-up.
    fn outcome(code: Code, ci: bool, first_use: OnLeak) -> Outcome {
        let policy = Policy {
            ci,
            first_use,
            ..CheckSettings::default().policy
        };
        let (kind, layer) = (FindingKind::FirstUse, Layer::DRIVER);
        let report = Report {
            status: CheckStatus::Inconclusive,
            reason: Some(Reason::new(code, "what", "remedy")),
            findings: vec![Finding::new(kind, layer, Place::HOST, Site::default())],
            ..Report::default()
        };
        weigh(&report, &policy, None)
    }

    #[test]
    fn set_up_that_should_fail_does_so_beside_what_is_unknown() {
        assert_eq!(outcome(Code::Shared, true, OnLeak::Warn), Outcome::Pass);
        assert_eq!(outcome(Code::Shared, true, OnLeak::Fail), Outcome::Fail);
    }

    #[test]
    fn a_missing_run_fails_in_continuous_integration_and_warns_elsewhere() {
        let missing = |ci| outcome(Code::NotRepeatable, ci, OnLeak::Warn);
        assert_eq!(
            (missing(true), missing(false)),
            (Outcome::Fail, Outcome::Warn)
        );
    }
}
