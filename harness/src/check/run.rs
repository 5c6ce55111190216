//! The whole flow of one check.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::blind::{self, Blindness};
use super::conclude::{Subject, conclude, conclude_rounds};
use super::gate::Gate;
use super::measure::{Measured, is_inside_a_check, measure};
use super::recording::{self, Runs};
use super::{body, entry, expect, outcome, poison, rounds, summary};
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
    let Judged {
        first,
        mut report,
        body_time,
        blindness,
    } = if policy.rounds > 1 {
        judge_rounds(case, &policy)
    } else {
        judge_once(case, &policy)
    };
    report.waited_ms = turn
        .as_ref()
        .map_or(0, |turn| turn.waited.as_millis() as u64);
    report.overhead_ms = start.elapsed().saturating_sub(body_time).as_secs_f64() * 1e3;
    drop(turn);
    if let Some(file) = config::file_in_use(case.origin.manifest_dir) {
        report.notes.push(format!("configured by {file}"));
    }

    let missed = match policy.expect {
        // Who could not see cannot miss anything.
        Some(expect) if blindness.is_none() => expect::settle(expect, &mut report).err(),
        _ => None,
    };
    let outcome = outcome::weigh(&report, &policy, blindness.as_ref());
    file(case, &report, &first);
    if let Some(missed) = missed.filter(|_| first.as_expected) {
        outcome::fail(case, &missed, &outcome::story(&report));
    }
    outcome::conclude(case, first.end, &report, outcome)
}

/// A check that has run, and what it showed.
struct Judged {
    /// The run of the body that decides how the test itself ends.
    first: Measured,
    report: Report,
    body_time: Duration,
    blindness: Option<Blindness>,
}

/// Runs the body, and once more to confirm what it left.
fn judge_once(case: &Case, policy: &Policy) -> Judged {
    let first = measure(case, policy);
    let second = needs_confirmation(&first, policy).then(|| measure(case, policy));
    let blindness = blind::blindness(first.saw_events);
    let runs = Runs::Once(first.scope, second.as_ref().map(|second| second.scope));
    let report = recording::concluded(runs, blindness.as_ref(), policy.expect, |names| {
        let second = second.as_ref();
        conclude(subject(case), &first, second, blindness.as_ref(), names)
    });
    let again = second.map_or(Duration::ZERO, |second| second.body_time);
    Judged {
        report,
        body_time: first.body_time + again,
        first,
        blindness,
    }
}

/// Runs the body in rounds, and judges what grows.
fn judge_rounds(case: &Case, policy: &Policy) -> Judged {
    let rounds = rounds::run(case, policy);
    let blindness = blind::blindness(rounds.first.saw_events);
    let runs = Runs::Rounds(rounds.scopes.clone());
    let report = recording::concluded(runs, blindness.as_ref(), policy.expect, |names| {
        conclude_rounds(subject(case), &rounds, blindness.as_ref(), names)
    });
    let ended = match rounds.last {
        Some(last) if !last.as_expected => last,
        _ => rounds.first,
    };
    Judged {
        report,
        body_time: rounds.body_time,
        first: ended,
        blindness,
    }
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
    let found = !first.held.is_empty() || !first.over.is_empty();
    policy.confirm && first.as_expected && found
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
