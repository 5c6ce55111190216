//! One check, from its beginning to its outcome.

use std::process::ExitCode;

use crate::case::Case;

/// Runs one annotated test.
#[must_use]
pub fn run(case: &'static Case) -> ExitCode {
    (case.body)()
}
