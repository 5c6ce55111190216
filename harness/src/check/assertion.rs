//! Makes a failing assertion of ours its test's verdict in every format: a test that fails by
//! `assert_clean`, by a block or by `assert_no_growth` is not clean, even if it left nothing else.
//!
//! This applies only if the assertion's panic ends the test, not if the test catches it or expects
//! it.

use super::body::{self, End};
use super::scopes::open::current;
use crate::case::ShouldPanic;
use crate::ledger::ScopeId;
use crate::report::model::{CheckStatus, Report};
use crate::sync::{Mutex, locked};

/// An assertion that has failed.
#[derive(Debug)]
struct Failed {
    /// The scope of the check that contains it.
    scope: ScopeId,
    headline: String,
    report: Report,
    /// Whether its report is in the run file.
    is_filed: bool,
}

static FAILED: Mutex<Vec<Failed>> = Mutex::new(Vec::new());

/// Records that an assertion about `report` is about to panic with `headline`. `is_filed`: whether
/// the report is in the run file. Returns false outside every check: then it becomes no check's
/// verdict.
pub(crate) fn fails(report: &Report, headline: &str, is_filed: bool) -> bool {
    let Some(scope) = current() else {
        return false;
    };
    let failed = Failed {
        scope,
        headline: headline.to_owned(),
        report: report.clone(),
        is_filed,
    };
    locked(&FAILED).push(failed);
    true
}

/// If the body of these scopes ended by an assertion, makes that the verdict of its report.
pub(crate) fn take_over(
    scopes: &[ScopeId],
    end: &End,
    should_panic: Option<ShouldPanic>,
    report: &mut Report,
) {
    let mut failed = locked(&FAILED);
    let own: Vec<Failed> = failed
        .extract_if(.., |it| scopes.contains(&it.scope))
        .collect();
    drop(failed);
    let End::Panicked(payload) = end else {
        return;
    };
    if end.as_expected(should_panic) || report.status.is_failure() {
        return;
    }
    let message = body::message(&**payload).unwrap_or_default();
    let Some(assertion) = own.into_iter().rev().find(|it| it.headline == message) else {
        return;
    };
    let Report {
        test,
        status,
        findings,
        reason,
        ..
    } = assertion.report;
    if matches!(status, CheckStatus::Clean) {
        return;
    }
    report.status = status;
    report.reason = reason;
    report.failed_inside = Some(test);
    // A report that is in the run file itself is not repeated.
    if !assertion.is_filed {
        report.findings.splice(0..0, findings);
    }
}
