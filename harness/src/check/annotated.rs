//! Runs an annotated test: decides whether and when it runs in this process, and how it ends.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::thread;

use super::blind;
use super::body;
use super::isolate;
use super::outcome;
use super::process::exit_summary;
use super::process::listen::record_from_here;
use super::scopes::open::{current, is_inside_a_check};
use super::scopes::tree;
use super::session::{Session, check, refuse};
use super::subject::subject_of;
use super::turn::concurrency;
use super::turn::entry;
use super::turn::gate::{Gate, Manner, Turn};
use crate::case::{Case, ShouldPanic};
use crate::config::{CheckSettings, Mode, TestFacts, WithoutGpu};
use crate::exec_settings;
use crate::ledger::ScopeId;

static GATE: Gate = Gate::new();

/// Runs one annotated test and judges the leaks of its body. This function is for runners. It waits
/// as long as another check prevents the test from running.
///
/// # Panics
///
/// Panics if the test fails, by its own panic or with the report.
pub fn run(case: &'static Case) -> ExitCode {
    run_as(case, Caller::Runner)
}

/// Like [`run`], but called by the test function itself. libtest calls that function on a thread
/// with the test's name, and the program's own code may call it on any thread.
///
/// # Panics
///
/// Panics if the test fails, by its own panic or with the report.
pub fn run_test(case: &'static Case) -> ExitCode {
    let caller = match thread::current().name() {
        Some(name) if name == case.name() => Caller::Runner,
        _ => Caller::Program,
    };
    match case.should_panic.filter(|it| it.by_libtest) {
        None => run_as(case, caller),
        Some(expected) => fail_by_returning(expected, || run_as(case, caller)),
    }
}

/// Runs a test in which libtest expects this panic. Any panic may satisfy libtest, so a test fails
/// by returning success; libtest then reports that the test did not panic. What failed has been
/// printed by then.
fn fail_by_returning(expected: ShouldPanic, test: impl FnOnce() -> ExitCode) -> ExitCode {
    match catch_unwind(AssertUnwindSafe(test)) {
        Ok(ExitCode::SUCCESS) => {
            let text = expected.expected.unwrap_or("the test panicked as expected");
            resume_unwind(Box::new(text.to_owned()))
        }
        Ok(_) | Err(_) => ExitCode::SUCCESS,
    }
}

/// Who runs a check.
#[derive(Clone, Copy)]
pub(super) enum Caller {
    /// A runner. No other check can be waiting for it.
    Runner,
    /// The program. An outer check may be waiting for it.
    Program,
}

fn run_as(case: &'static Case, caller: Caller) -> ExitCode {
    isolate::report_to_parent(|| {
        let settings = settings_of(case).unwrap_or_else(|why| refuse(&subject_of(case), why));
        let nested = is_inside_a_check();
        if settings.policy.mode != Mode::Off && !nested && entry::is_second(case) {
            outcome::fail(case, entry::REGISTERED_TWICE, "");
        }
        // If the command has preloaded a library, that library judges this process as a whole, so
        // the test runs in another process.
        let is_crowded = exec_settings::is_here();
        if !nested && (is_crowded || (settings.test.isolate && !concurrency::is_isolated())) {
            return isolate::run(case);
        }
        if settings.policy.mode == Mode::Off || is_unchecked(case) {
            let end = body::run(case.name(), ScopeId::NONE, case.body);
            return outcome::end_unjudged(case, end);
        }
        record_from_here(case.origin.manifest_dir, case.origin.file);
        if is_left_out(case, &settings) {
            return ExitCode::SUCCESS;
        }
        let turn = take_turn(&settings.test, caller);
        let body = |scope| body::run(case.name(), scope, case.body);
        let checked = check(session_of(case, settings, turn), body);
        let report = |checked| outcome::report(&subject_of(case), checked).0;
        outcome::end_unjudged(case, checked.map_or_else(|end| end, report))
    })
}

/// Creates the session of an annotated test or of a program's `main`.
pub(super) fn session_of(
    case: &'static Case,
    settings: CheckSettings,
    turn: Turn<'static>,
) -> Session {
    Session::new(subject_of(case), settings, turn)
        .of_test(case.should_panic, case.origin.manifest_dir)
}

/// Returns the settings of an annotated test or of a program's `main`, or a message if they are
/// wrong.
pub(super) fn settings_of(case: &Case) -> Result<CheckSettings, String> {
    let Case {
        options, origin, ..
    } = case;
    CheckSettings::of(case.name(), origin.manifest_dir, options, options.allow)
}

/// Waits for the turn of a check. A nested check runs within the turn of the check around it.
pub(super) fn take_turn(test: &TestFacts, caller: Caller) -> Turn<'static> {
    if is_inside_a_check() {
        return no_turn();
    }
    let manner = if test.parallel {
        Manner::Parallel
    } else {
        Manner::Exclusive
    };
    match caller {
        Caller::Runner => {
            concurrency::arrive();
            GATE.enter(manner)
        }
        Caller::Program => GATE.enter_now(manner),
    }
}

/// Returns the turn of a check that does not wait: it is nested, or checks a scope or a process.
pub(super) fn no_turn() -> Turn<'static> {
    let around = current().and_then(tree::check_around);
    GATE.stay_outside(around.is_some())
}

/// Whether the run's settings skip the test on this machine.
pub(super) fn is_left_out(case: &Case, settings: &CheckSettings) -> bool {
    let may_skip = settings.policy.without_gpu == WithoutGpu::Skip;
    let skip = settings.test.needs_gpu && may_skip && blind::no_gpu();
    if skip {
        exit_summary::change(|summary| summary.add_skipped(case.name()));
    }
    skip
}

/// Whether the attribute exempts this test from being judged here.
pub(super) fn is_unchecked(case: &Case) -> bool {
    case.options.unchecked_if.is_some_and(|unchecked| {
        let holds = (unchecked.condition)();
        if holds {
            let note = format!("{} is unchecked: {}", case.name(), unchecked.reason);
            exit_summary::change(|summary| summary.note(&note));
        }
        holds
    })
}
