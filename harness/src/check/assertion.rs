//! Makes a failed assertion of this crate the verdict of its test in every output format. A test
//! that fails through `assert_clean`, a block or `assert_no_growth` is not clean, even if it has
//! left nothing else.
//!
//! This applies only if the assertion's panic ends the test, and not if the test catches or expects
//! the panic. A panic is recognised by the address of its message, because two assertions may have
//! the same message.

use std::any::Any;

use super::body::End;
use super::scopes::open::current;
use super::scopes::tree::{self, FailureId};
use crate::case::ShouldPanic;
use crate::ledger::ScopeId;
use crate::report::check_report::Report;
use crate::sync::{Mutex, locked};

/// An assertion that has failed.
struct Failed {
    id: FailureId,
    /// The scope of the check in which the assertion failed.
    scope: ScopeId,
    message: String,
    /// The address of the panic's own copy of the message.
    address: usize,
    report: Report,
    /// Whether the report is in the run file.
    is_filed: bool,
}

static FAILED: Mutex<Vec<Failed>> = Mutex::new(Vec::new());

/// Records that an assertion about `report` is about to panic with exactly this `message`.
/// `is_filed` says whether the report is in the run file. Returns `None` outside any check, where
/// the assertion affects no check's verdict.
pub(crate) fn fails(report: &Report, message: &str, is_filed: bool) -> Option<FailureId> {
    let (scope, id) = (current()?, FailureId::new());
    let failed = Failed {
        id,
        scope,
        message: message.to_owned(),
        address: message.as_ptr().addr(),
        report: report.clone(),
        is_filed,
    };
    locked(&FAILED).push(failed);
    Some(id)
}

/// Returns the assertion whose panic has this payload; `None` for any other panic.
pub(crate) fn of_panic(payload: &(dyn Any + Send)) -> Option<FailureId> {
    let message = payload.downcast_ref::<String>()?;
    let failed = locked(&FAILED);
    // The newest assertion is the right one, because an earlier message at this address has been
    // freed.
    let mut at_address = failed.iter().rev();
    let failed = at_address.find(|it| it.address == message.as_ptr().addr())?;
    (failed.message == *message).then_some(failed.id)
}

/// If an assertion ended the body of these scopes, makes it the verdict of `report`. If the report
/// has a failing finding of its own, that finding remains the status.
///
/// If the body failed in another way, the last assertion that failed inside it is probably the
/// cause: whoever joins a thread, for example, panics with a message of its own.
///
/// The panic of an assertion may end several checks, one around the other. So the assertion is kept
/// until a check ends otherwise, or until the outermost one ends.
pub(crate) fn take_over(
    scopes: &[ScopeId],
    end: &End,
    should_panic: Option<ShouldPanic>,
    report: &mut Report,
) {
    let has_failed = !end.as_expected(should_panic);
    let by_panic = match end {
        End::Panicked(payload) if has_failed => of_panic(&**payload),
        _ => None,
    };
    let is_outermost = current().is_none();
    let mut failed = locked(&FAILED);
    let inside = |it: &&Failed| tree::is_inside(it.scope, scopes);
    let last = || failed.iter().rev().find(inside).map(|it| it.id);
    let id = by_panic.or_else(|| has_failed.then(last)?);
    let assertion = failed.iter().find(|it| Some(it.id) == id);
    let assertion = assertion.map(|it| (it.report.clone(), it.is_filed));
    failed.retain_mut(|it| {
        let goes_on = Some(it.id) == id && !is_outermost;
        // The report of this check will be in the run file.
        it.is_filed |= goes_on;
        goes_on || !tree::is_inside(it.scope, scopes)
    });
    drop(failed);
    let Some((inside, is_filed)) = assertion else {
        return;
    };
    report.failed_inside = Some(inside.test);
    if report.status.is_failure() {
        return;
    }
    report.status = inside.status;
    report.reason = inside.reason;
    // If the assertion's report is itself in the run file, its findings are not repeated.
    if !is_filed {
        report.findings.splice(0..0, inside.findings);
    }
}
