//! Runs what the attribute annotates: a test, all tests of a program, or a program's `main`.
//! Decides whether and when a test runs in this process, and how it ends.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::thread;

use super::naming::subject_of;
use super::process::exit_summary;
use super::process::prepare::record_from_here;
use super::scopes::open::{current, is_inside_a_check};
use super::session::{Session, check, refuse};
use super::turn::gate::Turn;
use super::turn::{self, Caller, concurrency, libtest};
use super::{blind, body, isolate, outcome};
use crate::case::{Case, ShouldPanic};
use crate::config::{CheckSettings, Mode, WithoutGpu};
use crate::exec_settings;
use crate::ledger::ScopeId;
#[cfg(feature = "main")]
use crate::registry;
use crate::report::text;

/// The exit code for invalid settings.
const USAGE: u8 = 2;
/// The exit code for findings.
const FINDINGS: u8 = 1;

/// Runs one annotated test and judges the leaks of its body. Meant for test runners. Waits while
/// another check prevents the test from running.
///
/// # Panics
///
/// Panics if the test fails, either with the test's own panic or with the report.
pub fn run(case: &'static Case) -> ExitCode {
    run_as(case, Caller::Runner)
}

/// Runs one annotated test as [`run`] does, but is called by the test function itself. libtest
/// calls that function on a thread with the test's name, and the program's own code may call it on
/// any thread.
///
/// # Panics
///
/// Panics if the test fails, either with the test's own panic or with the report.
pub fn run_test(case: &'static Case) -> ExitCode {
    let caller = match thread::current().name() {
        Some(name) if name == case.name() => {
            concurrency::is_of_one_test();
            Caller::Runner
        }
        _ => Caller::Program,
    };
    match case.should_panic.filter(|it| it.by_libtest) {
        None => run_as(case, caller),
        Some(expected) => fail_by_returning(expected, || run_as(case, caller)),
    }
}

/// Runs a test in which libtest expects this panic. Any panic may satisfy libtest, so a test fails
/// by returning success; libtest then reports that the test did not panic. By then, the reason for
/// the failure has been printed.
fn fail_by_returning(expected: ShouldPanic, test: impl FnOnce() -> ExitCode) -> ExitCode {
    match catch_unwind(AssertUnwindSafe(test)) {
        Ok(ExitCode::SUCCESS) => {
            let text = expected.expected.unwrap_or("the test panicked as expected");
            resume_unwind(Box::new(text.to_owned()))
        }
        Ok(_) | Err(_) => ExitCode::SUCCESS,
    }
}

fn run_as(case: &'static Case, caller: Caller) -> ExitCode {
    isolate::report_to_parent(|| {
        let settings = settings_of(case).unwrap_or_else(|why| refuse(&subject_of(case), why));
        let nested = is_inside_a_check();
        // A call by the program is no entry: the runner may enter the test before or after it.
        let is_entry = matches!(caller, Caller::Runner) && !nested;
        if settings.policy.mode != Mode::Off && is_entry && libtest::is_second(case) {
            outcome::fail(case, libtest::REGISTERED_TWICE);
        }
        // If the command has preloaded a library, that library judges this process as a whole, so
        // the test runs in another process.
        let is_judged_as_a_whole = exec_settings::is_preloaded();
        let must_isolate = settings.test.isolate && !concurrency::is_isolated();
        if !nested && (is_judged_as_a_whole || must_isolate) {
            return isolate::run(case);
        }
        if settings.policy.mode == Mode::Off || is_unchecked(case) {
            // A check around this test judges what the body leaves behind.
            let scope = current().unwrap_or(ScopeId::NONE);
            let end = body::run(case.name(), scope, case.body);
            return outcome::end_like_body(case, end);
        }
        record_from_here(case.origin.manifest_dir, case.origin.file);
        if skips_without_gpu(case, &settings) {
            return ExitCode::SUCCESS;
        }
        let turn = turn::take(&settings.test, caller);
        let body = |scope| body::run(case.name(), scope, case.body);
        let checked = check(session_of(case, settings, turn), body);
        let end = checked.map_or_else(|end| end, |checked| outcome::report(checked).0);
        outcome::end_like_body(case, end)
    })
}

/// Runs a program's `main` and reports its leaks.
///
/// The exit code is the program's own if the program failed, 1 for findings, and 2 for invalid
/// settings.
///
/// # Panics
///
/// Panics if the program's `main` panics.
pub fn run_program(case: &'static Case) -> ExitCode {
    let settings = match settings_of(case) {
        Ok(settings) => settings,
        Err(error) => {
            text::tell(&format!("gpu-leak-check: {error}"));
            return ExitCode::from(USAGE);
        }
    };
    if settings.policy.mode == Mode::Off || is_unchecked(case) {
        return (case.body)();
    }
    if skips_without_gpu(case, &settings) {
        return ExitCode::SUCCESS;
    }
    concurrency::is_one_program();
    let body = |scope| body::run_main(scope, case.body);
    let checked = match check(session_of(case, settings, turn::none()), body) {
        Ok(checked) => checked,
        Err(end) => return outcome::end_like_body(case, end),
    };
    if let Some(failed) = checked.failed {
        text::tell(&format!(
            "{failed}\n\n{}",
            outcome::rendered(&checked.report)
        ));
        return ExitCode::from(FINDINGS);
    }
    outcome::print_report(&checked.report);
    outcome::end_like_body(case, checked.end)
}

/// Runs the checks of this program that the command line selects. The command line has the same
/// options as that of libtest. This function implements [`main!`](crate::main).
#[cfg(feature = "main")]
pub fn main() -> ExitCode {
    let arguments = libtest_mimic::Arguments::from_args();
    let trials = registry::cases().into_iter().map(trial).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

#[cfg(feature = "main")]
fn trial(case: &'static Case) -> libtest_mimic::Trial {
    let test = move || {
        if run(case) == ExitCode::SUCCESS {
            Ok(())
        } else {
            Err(libtest_mimic::Failed::from("the test returned an error"))
        }
    };
    libtest_mimic::Trial::test(case.name(), test).with_ignored_flag(case.ignored)
}

/// Creates the session of an annotated test or of a program's `main`.
fn session_of(case: &'static Case, settings: CheckSettings, turn: Turn<'static>) -> Session {
    Session::new(subject_of(case), settings, turn)
        .of_test(case.should_panic, case.origin.manifest_dir)
}

/// Returns the settings of an annotated test or of a program's `main`, or a message if they are
/// invalid.
fn settings_of(case: &Case) -> Result<CheckSettings, String> {
    let Case {
        options, origin, ..
    } = case;
    CheckSettings::of(case.name(), origin.manifest_dir, options, options.allow)
}

/// Whether the run's settings skip the test on this machine. If so, adds the test to the summary.
fn skips_without_gpu(case: &Case, settings: &CheckSettings) -> bool {
    let may_skip = settings.policy.without_gpu == WithoutGpu::Skip;
    let skip = settings.test.needs_gpu && may_skip && blind::no_gpu();
    if skip {
        exit_summary::change(|summary| summary.add_skipped(case.name()));
    }
    skip
}

/// Whether the attribute exempts this test from being judged here. If so, adds a note to the
/// summary.
fn is_unchecked(case: &Case) -> bool {
    case.options.unchecked_if.is_some_and(|unchecked| {
        let holds = (unchecked.condition)();
        if holds {
            let note = format!("{} is unchecked: {}", case.name(), unchecked.reason);
            exit_summary::change(|summary| summary.note(&note));
        }
        holds
    })
}
