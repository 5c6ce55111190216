//! Checks a whole program, whose `main` has the attribute.

use std::process::ExitCode;

use super::annotated::{is_left_out, is_unchecked, no_turn, session_of, settings_of};
use super::body;
use super::outcome;
use super::session::check;
use super::turn::concurrency;
use crate::case::Case;
use crate::config::Mode;

/// The exit code for wrong settings.
const USAGE: u8 = 2;
/// The exit code for findings.
const FINDINGS: u8 = 1;

/// Runs a program's `main` and reports its leaks.
///
/// The exit code is the program's own if the program failed, 1 for findings, and 2 for wrong
/// settings.
///
/// # Panics
///
/// Panics with the program's own panic.
pub fn run_program(case: &'static Case) -> ExitCode {
    let settings = match settings_of(case) {
        Ok(settings) => settings,
        Err(error) => {
            outcome::tell(&format!("gpu-leak-check: {error}"));
            return ExitCode::from(USAGE);
        }
    };
    if settings.policy.mode == Mode::Off || is_unchecked(case) {
        return (case.body)();
    }
    if is_left_out(case, &settings) {
        return ExitCode::SUCCESS;
    }
    concurrency::is_one_program();
    let body = |scope| body::run_main(scope, case.body);
    let checked = match check(session_of(case, settings, no_turn()), body) {
        Ok(checked) => checked,
        Err(end) => return outcome::end_unjudged(case, end),
    };
    if let Some(failed) = checked.failed {
        outcome::tell(&format!("{failed}\n\n{}", outcome::story(&checked.report)));
        return ExitCode::from(FINDINGS);
    }
    outcome::print_beside(&checked.report, checked.outcome);
    outcome::end_unjudged(case, checked.end)
}
