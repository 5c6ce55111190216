//! Runs the checked tests of a lesson, including those that fail, and prints the result of each.

#![expect(clippy::print_stdout, reason = "the output is the lesson's purpose")]

use std::error::Error;
use std::panic::catch_unwind;
use std::process::ExitCode;

use gpu_leak_check::registry;
use gpu_leak_check::report::check_report::{Outcome, Report};
use gpu_leak_check::report::text::{self, Rendering};
use gpu_leak_check::report::{Sink, run_file};

/// The result of one test.
#[derive(Debug)]
pub struct Checked {
    /// Whether `cargo test` would report the test as failed.
    pub failed: bool,
    /// The report of its check.
    pub report: Report,
}

/// Runs all tests of this program in the order of its source.
///
/// # Errors
///
/// Returns an error if the results cannot be written or read.
pub fn run_tests() -> Result<Vec<Checked>, Box<dyn Error>> {
    let mut cases = registry::cases();
    cases.sort_by_key(|case| case.origin.line);
    cases
        .into_iter()
        .map(|case| {
            println!("\n---- {} ----", case.name());
            let end = catch_unwind(|| gpu_leak_check::run(case));
            let failed = end.ok() != Some(ExitCode::SUCCESS);
            let report = last_report()?;
            // Tests that fail or warn have already printed their reports.
            if !failed && report.outcome == Some(Outcome::Pass) {
                print!("{}", text::to_string(&report, &Rendering::for_stderr()));
            }
            println!(
                "test {} ... {}",
                case.name(),
                ["ok", "FAILED"][usize::from(failed)]
            );
            Ok(Checked { failed, report })
        })
        .collect()
}

/// Returns the report that the last check wrote to the run file of this process.
fn last_report() -> Result<Report, Box<dyn Error>> {
    let path = Sink::global()
        .path()
        .ok_or("there are no results: set GPU_LEAK_CHECK_OUTPUT to a writable directory")?;
    let mut reports = run_file::read(&path)?.reports;
    reports.pop().ok_or_else(|| "the results are empty".into())
}
