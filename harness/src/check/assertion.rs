//! A failing assertion of ours is its test's verdict in every format: a test that fails by
//! `assert_clean`, by a block or by `assert_no_growth` is not clean because it left nothing else.
//!
//! Only where its panic is what the test ends by: one that the test catches, or is to panic with, is
//! the test's own business.

use std::sync::{Mutex, PoisonError};

use super::body::{self, End};
use super::scopes::open::current;
use crate::case::ShouldPanic;
use crate::ledger::ScopeId;
use crate::report::model::{CheckStatus, Report};

/// An assertion that has failed.
#[derive(Debug)]
struct Failed {
    /// The scope of the check it stands in.
    scope: ScopeId,
    headline: String,
    report: Report,
}

static FAILED: Mutex<Vec<Failed>> = Mutex::new(Vec::new());

/// Notes that an assertion about `report` is about to panic with `headline`, on a thread that works
/// for a check.
pub(crate) fn fails(report: &Report, headline: &str) {
    if let Some(scope) = current() {
        let failed = Failed {
            scope,
            headline: headline.to_owned(),
            report: report.clone(),
        };
        FAILED.lock().unwrap_or_else(PoisonError::into_inner).push(failed);
    }
}

/// Makes the assertion by which a body of these scopes ended, if one did, the verdict of its report.
pub(crate) fn take_over(
    scopes: &[ScopeId],
    end: &End,
    should_panic: Option<ShouldPanic>,
    report: &mut Report,
) {
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    let own: Vec<Failed> = failed.extract_if(.., |it| scopes.contains(&it.scope)).collect();
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
    report.notes.push(format!("failed by the check {test:?} inside this test"));
    report.status = status;
    report.reason = reason;
    report.findings.splice(0..0, findings);
}
