//! The whole flow of one check.

use std::process::ExitCode;
use std::time::Instant;

use super::blind;
use super::conclude::Subject;
use super::gate::Gate;
use super::measure::{Measured, is_inside_a_check, measure};
use super::recording::conclude_and_record;
use super::{body, entry, outcome, poison, summary};
use crate::capture::{cupti, record};
use crate::case::Case;
use crate::config::{self, Mode, Policy, WithoutGpu};
use crate::ledger::ScopeId;
use crate::observe;
use crate::report::Sink;
use crate::report::again;
use crate::report::model::Report;
use crate::report::workspace::Workspace;

static GATE: Gate = Gate::new();

/// Runs one annotated test: its body, and what the body left.
///
/// # Panics
///
/// When the test fails, by its own panic or by the report.
pub fn run(case: &'static Case) -> ExitCode {
    let policy = Policy::of(case.name(), case.origin.manifest_dir, &case.options)
        .unwrap_or_else(|error| outcome::fail(case, &error, ""));
    if policy.mode == Mode::Off || is_unchecked(case) {
        return run_unchecked(case);
    }
    // Before anything is watched: a recording has all events, or none.
    let workspace = Workspace::init(case.origin.manifest_dir, case.origin.file);
    record::begin(workspace.root());
    if policy.without_gpu == WithoutGpu::Skip && blind::no_gpu() {
        summary::skipped(case.name());
        return ExitCode::SUCCESS;
    }
    let nested = is_inside_a_check();
    if !nested && entry::is_second(case) {
        outcome::fail(case, entry::REGISTERED_TWICE, "");
    }
    let turn = (!nested).then(|| GATE.enter());

    let start = Instant::now();
    begin(case);
    let first = measure(case, &policy);
    let second = needs_confirmation(&first, &policy).then(|| measure(case, &policy));
    let blindness = blind::blindness(first.saw_events);
    let mut report =
        conclude_and_record(subject(case), &first, second.as_ref(), blindness.as_ref());
    report.waited_ms = turn
        .as_ref()
        .map_or(0, |turn| turn.waited.as_millis() as u64);
    report.overhead_ms = overhead(start, &first, second.as_ref());
    drop(turn);
    if let Some(file) = config::file_in_use(case.origin.manifest_dir) {
        report.notes.push(format!("configured by {file}"));
    }

    let outcome = outcome::weigh(&report, &policy, blindness.as_ref());
    file(case, &report, &first);
    outcome::conclude(case, first.end, &report, outcome)
}

/// Gets everything ready that must be there before the body: the driver's tracer, ears for other
/// sources, and the line in the run file by which a killed test is known.
fn begin(case: &Case) {
    observe::listen();
    // Its absence is judged after the body, when it is known whether there was anything to see.
    let _ = cupti::start();
    record::identify();
    summary::tell_at_exit();
    Sink::global().began(case.name(), case.origin.file, case.origin.line);
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

/// Whether the attribute says that this test is not to be judged here.
fn is_unchecked(case: &Case) -> bool {
    case.options.unchecked_if.is_some_and(|unchecked| {
        let holds = (unchecked.condition)();
        if holds {
            summary::unchecked(case.name(), unchecked.reason);
        }
        holds
    })
}

fn run_unchecked(case: &Case) -> ExitCode {
    let end = body::run(case.name(), ScopeId::NONE, case.body);
    outcome::end_unjudged(case, end)
}
