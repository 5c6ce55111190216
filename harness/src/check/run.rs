//! The whole flow of one check.

use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use super::blind::{self, Blindness};
use super::company::Company;
use super::conclude::{Subject, conclude};
use super::gate::{Gate, Manner, Turn};
use super::measure::{Measured, Runs, is_inside_a_check};
use super::{body, entry, isolate, outcome, poison, summary, warmup};
use crate::capture::cupti;
use crate::case::Case;
use crate::config::{self, Mode, Policy, WithoutGpu};
use crate::ledger::ScopeId;
use crate::observe;
use crate::report::Sink;
use crate::report::again;
use crate::report::model::Report;
use crate::report::workspace::Workspace;

static GATE: Gate = Gate::new();

/// Runs one annotated test: its body, and what the body left. For runners: it waits until no other
/// check is in the way.
///
/// # Panics
///
/// When the test fails, by its own panic or by the report.
pub fn run(case: &'static Case) -> ExitCode {
    run_as(case, Caller::Runner)
}

/// As [`run`], called by the test function itself: by libtest on a thread of the test's name, or by
/// the program's own code on any thread.
///
/// # Panics
///
/// When the test fails, by its own panic or by the report.
pub fn run_test(case: &'static Case) -> ExitCode {
    let caller = match thread::current().name() {
        Some(name) if name == case.name() => Caller::Runner,
        _ => Caller::Program,
    };
    run_as(case, caller)
}

/// Who calls a check.
#[derive(Clone, Copy)]
enum Caller {
    /// For whom no check waits.
    Runner,
    /// For whom the check inside may wait.
    Program,
}

fn run_as(case: &'static Case, caller: Caller) -> ExitCode {
    isolate::report_to_parent(|| {
        let policy = policy(case);
        let nested = is_inside_a_check();
        if policy.mode != Mode::Off && !nested && entry::is_second(case) {
            outcome::fail(case, entry::REGISTERED_TWICE, "");
        }
        if policy.isolate && !nested && !isolate::is_there() {
            return isolate::run(case);
        }
        if policy.mode == Mode::Off || is_unchecked(case) {
            let end = body::run(case.name(), ScopeId::NONE, case.body);
            return outcome::end_unjudged(case, end);
        }
        if is_skipped(case, &policy) {
            return ExitCode::SUCCESS;
        }
        let turn = (!nested).then(|| take_turn(&policy, caller));
        check(case, &policy, turn.as_ref())
    })
}

fn policy(case: &Case) -> Policy {
    policy_of(case).unwrap_or_else(|error| outcome::fail(case, &error, ""))
}

/// What holds for a case.
pub(super) fn policy_of(case: &Case) -> Result<Policy, String> {
    Policy::of(case.name(), case.origin.manifest_dir, &case.options)
}

fn take_turn(policy: &Policy, caller: Caller) -> Turn<'static> {
    let manner = if policy.parallel {
        Manner::Parallel
    } else {
        Manner::Exclusive
    };
    match caller {
        Caller::Runner => GATE.enter(manner),
        Caller::Program => GATE.enter_now(manner),
    }
}

fn check(case: &'static Case, policy: &Policy, turn: Option<&Turn<'_>>) -> ExitCode {
    let run = |scope| body::run(case.name(), scope, case.body);
    match judge(case, policy, turn, run) {
        Ok(judged) => {
            let outcome = outcome::weigh(&judged.report, policy, judged.blindness.as_ref());
            outcome::conclude(case, judged.end, &judged.report, outcome)
        }
        Err(end) => outcome::end_unjudged(case, end),
    }
}

/// A body's run and what it left.
pub(super) struct Judged {
    pub(super) end: body::End,
    pub(super) report: Report,
    pub(super) blindness: Option<Blindness>,
}

/// Runs a body as often as it takes to judge it; the end of a warm-up that did not end as it
/// should.
pub(super) fn judge(
    case: &'static Case,
    policy: &Policy,
    turn: Option<&Turn<'_>>,
    run: impl Fn(ScopeId) -> body::End,
) -> Result<Judged, body::End> {
    let start = Instant::now();
    let company = Company::of(turn);
    begin(case);
    let mut runs = Runs::new(policy, case.should_panic, company, &run);
    for _ in 0..policy.warmup {
        runs.warm_up()?;
    }
    let first = runs.measure();
    let second = needs_confirmation(&first, policy).then(|| runs.measure());
    let blindness = blind::blindness(first.saw_events);
    let mut report = conclude(subject(case), &first, second.as_ref(), blindness.as_ref());
    report.waited_ms = turn.map_or(0, |turn| turn.waited.as_millis() as u64);
    report.overhead_ms = overhead(start, &first, second.as_ref());
    if let Some(file) = config::file_in_use(case.origin.manifest_dir) {
        report.notes.push(format!("configured by {file}"));
    }
    file(case, &report, &first);
    Ok(Judged {
        end: first.end,
        report,
        blindness,
    })
}

/// Gets everything ready that must be there before the body: the driver's tracer, ears for other
/// sources, the line in the run file by which a killed test is known, and what the process warms
/// up once.
fn begin(case: &Case) {
    listen(case.origin.manifest_dir, case.origin.file);
    summary::tell_at_exit();
    Sink::global().began(case.name(), case.origin.file, case.origin.line);
    warmup::run_hooks(case);
}

/// The driver's tracer, and ears for other sources.
pub(super) fn listen(manifest_dir: Option<&str>, file: &str) {
    Workspace::init(manifest_dir, file);
    observe::listen();
    // Its absence is judged after the body, when it is known whether there was anything to see.
    let _ = cupti::start();
}

/// Whether the body runs a second time: only what repeats is a leak.
fn needs_confirmation(first: &Measured, policy: &Policy) -> bool {
    policy.confirm && first.as_expected && !first.held.is_empty()
}

fn subject(case: &Case) -> Subject<'_> {
    Subject {
        test: case.name(),
        file: case.origin.file,
        line: case.origin.line,
        column: case.origin.column,
        again: again::command(case),
    }
}

/// What the check cost beside the body, in milliseconds.
fn overhead(start: Instant, first: &Measured, second: Option<&Measured>) -> f64 {
    let body = first.body_time + second.map(|second| second.body_time).unwrap_or_default();
    start.elapsed().saturating_sub(body).as_secs_f64() * 1e3
}

/// Writes the report down where the run's summary and other programs find it.
fn file(case: &Case, report: &Report, first: &Measured) {
    if first.poisoned_inside.is_some() {
        poison::blame(case.name());
    }
    summary::add(report, first.owner_unknown);
    Sink::global().finished(report);
}

/// Whether the run's settings say that nothing runs on a machine like this.
pub(super) fn is_skipped(case: &Case, policy: &Policy) -> bool {
    let skipped = policy.without_gpu == WithoutGpu::Skip && blind::no_gpu();
    if skipped {
        summary::skipped(case.name());
    }
    skipped
}

/// Whether the attribute says that this test is not to be judged here.
pub(super) fn is_unchecked(case: &Case) -> bool {
    case.options.unchecked_if.is_some_and(|unchecked| {
        let holds = (unchecked.condition)();
        if holds {
            summary::unchecked(case.name(), unchecked.reason);
        }
        holds
    })
}
