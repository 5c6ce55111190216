//! A check of a closure on the calling thread: what [`run`](super::run) does for a test, without a
//! turn at the gate, a thread for the body, a confirming run and the run file.

use super::blind;
use super::conclude::{Subject, conclude};
use super::measure::body::End;
use super::measure::{Earlier, measure};
use super::recording::{self, Runs};
use super::scopes::token::Token;
use super::turn::company::Company;
use crate::config::Policy;
use crate::options::Options;
use crate::report::model::Report;

/// Runs `body` in a scope of its own, and reports what it left.
///
/// # Errors
///
/// What is wrong with the run's settings.
pub(crate) fn check_here(name: &str, body: impl FnOnce()) -> Result<Report, String> {
    let policy = Policy::of(name, None, &Options::DEFAULT)?;
    let mut earlier = Earlier::default();
    let measured = measure(name, &policy, None, Company::of(None), &earlier, |scope| {
        let _token = Token::set(scope);
        body();
        End::Passed
    });
    earlier.scopes.push(measured.scope);
    let blindness = blind::blindness(measured.saw_events);
    let subject = Subject {
        test: name,
        file: file!(),
        line: line!(),
        column: column!(),
        again: None,
        allowed: Vec::new(),
    };
    let runs = Runs::Once(measured.scope, None);
    let report = recording::concluded(runs, blindness.as_ref(), None, |names| {
        conclude(subject, &measured, None, blindness.as_ref(), names)
    });
    Ok(report)
}
