//! A check of a closure on the calling thread, without a turn at the gate, a confirming run and the
//! run file: what benchmarks measure.

use super::session::{Session, check, run_here};
use crate::config::Policy;
use crate::judge::Subject;
use crate::options::Options;
use crate::report::model::Report;

/// Runs `body` in a scope of its own, and reports what it left.
///
/// # Errors
///
/// What is wrong with the run's settings, or that a warm-up did not end as it should.
pub(crate) fn check_here(name: &str, body: impl FnOnce()) -> Result<Report, String> {
    let policy = Policy::of(name, None, &Options::DEFAULT)?;
    let policy = Policy {
        confirm: false,
        ..policy
    };
    let subject = Subject {
        test: name.to_owned(),
        file: file!().to_owned(),
        line: line!(),
        column: column!(),
        again: None,
    };
    let session = Session::new(subject, policy, Vec::new(), None).unfiled();
    let mut body = Some(body);
    let checked = check(session, |scope| {
        run_here(scope, || body.take().map_or((), |body| body()), drop)
    });
    checked
        .map(|checked| checked.report)
        .map_err(|_| "the warm-up of a benchmark failed".to_owned())
}
