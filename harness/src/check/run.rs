//! The whole flow of one check.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use super::blind::{self, Blindness};
use super::company::Company;
use super::conclude::{Subject, conclude, conclude_rounds};
use super::gate::{Gate, Manner, Turn};
use super::measure::{Earlier, Measured, measure, run_unmeasured};
use super::open::is_inside_a_check;
use super::recording::{self, Runs};
use super::summary::{self, UnderWay};
use super::{body, entry, expect, isolate, outcome, poison, rounds, warmup};
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
        record_from_here(case);
        if is_left_out(case, &policy) {
            return ExitCode::SUCCESS;
        }
        let turn = (!nested).then(|| take_turn(&policy, caller));
        check(case, &policy, turn.as_ref())
    })
}

fn policy(case: &Case) -> Policy {
    Policy::of(case.name(), case.origin.manifest_dir, &case.options)
        .unwrap_or_else(|error| outcome::fail(case, &error, ""))
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
            if let Some(missed) = judged
                .missed
                .filter(|_| judged.end.as_expected(case.should_panic))
            {
                outcome::fail(case, &missed, &outcome::story(&judged.report));
            }
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
    /// How what was left differs from what was to be left.
    pub(super) missed: Option<String>,
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
    let _under_way = begin(case);
    let mut earlier = Earlier::default();
    for _ in 0..policy.warmup {
        let (scope, end) = run_unmeasured(&run);
        if !end.as_expected(case.should_panic) {
            return Err(end);
        }
        earlier.scopes.push(scope);
    }
    let mut measure = |earlier: &mut Earlier| {
        let measured = measure(
            case.name(),
            policy,
            case.should_panic,
            company,
            earlier,
            &run,
        );
        earlier.scopes.push(measured.scope);
        measured
    };
    let Seen {
        ended,
        mut report,
        body_time,
        blindness,
    } = if policy.rounds > 1 {
        let rounds = rounds::run(policy.rounds, earlier, &mut measure);
        by_rounds(case, policy, rounds)
    } else {
        let first = measure(&mut earlier);
        let second = needs_confirmation(&first, policy).then(|| measure(&mut earlier));
        once(case, policy, first, second)
    };
    report.waited_ms = turn.map_or(0, |turn| turn.waited.as_millis() as u64);
    report.overhead_ms = start.elapsed().saturating_sub(body_time).as_secs_f64() * 1e3;
    if let Some(file) = config::file_in_use(case.origin.manifest_dir) {
        report.notes.push(format!("configured by {file}"));
    }
    let missed = match policy.expect {
        // Who could not see cannot miss anything.
        Some(expect) if blindness.is_none() => expect::settle(expect, &mut report).err(),
        _ => None,
    };
    file(case, &report, &ended);
    Ok(Judged {
        end: ended.end,
        report,
        blindness,
        missed,
    })
}

/// The runs of a body and what they showed.
struct Seen {
    /// The run that decides how the test itself ends.
    ended: Measured,
    report: Report,
    body_time: Duration,
    blindness: Option<Blindness>,
}

/// One run, and the one that confirmed what it left.
fn once(case: &Case, policy: &Policy, first: Measured, second: Option<Measured>) -> Seen {
    let blindness = blind::blindness(first.saw_events);
    let runs = Runs::Once(first.scope, second.as_ref().map(|second| second.scope));
    let report = recording::concluded(runs, blindness.as_ref(), policy.expect, |names| {
        let second = second.as_ref();
        conclude(subject(case), &first, second, blindness.as_ref(), names)
    });
    let again = second.map_or(Duration::ZERO, |second| second.body_time);
    Seen {
        report,
        body_time: first.body_time + again,
        ended: first,
        blindness,
    }
}

/// Several, of which only what grows in each is told.
fn by_rounds(case: &Case, policy: &Policy, rounds: rounds::Rounds) -> Seen {
    let blindness = blind::blindness(rounds.first.saw_events);
    let runs = Runs::Rounds(rounds.scopes.clone());
    let report = recording::concluded(runs, blindness.as_ref(), policy.expect, |names| {
        conclude_rounds(subject(case), &rounds, blindness.as_ref(), names)
    });
    let ended = match rounds.last {
        Some(last) if !last.as_expected => last,
        _ => rounds.first,
    };
    Seen {
        report,
        body_time: rounds.body_time,
        ended,
        blindness,
    }
}

/// Gets everything ready that must be there before the body: the driver's tracer, ears for other
/// sources, the line in the run file by which a killed test is known, and what the process warms
/// up once.
fn begin(case: &'static Case) -> UnderWay {
    record_from_here(case);
    observe::listen();
    // Its absence is judged after the body, when it is known whether there was anything to see.
    let _ = cupti::start();
    record::identify();
    let under_way = summary::began(case.name());
    Sink::global().began(case.name(), case.origin.file, case.origin.line);
    warmup::run_hooks(case);
    under_way
}

/// Begins the recording, where one is asked for, before anything is watched: it has all events, or
/// none.
fn record_from_here(case: &Case) {
    let workspace = Workspace::init(case.origin.manifest_dir, case.origin.file);
    record::begin(workspace.root());
}

/// Whether the body runs a second time: only what repeats is a leak.
fn needs_confirmation(first: &Measured, policy: &Policy) -> bool {
    let found = !first.held.is_empty() || !first.over.is_empty();
    // In a broken context the body could only fail.
    let broken = first.poisoned_before.is_some() || first.poisoned_inside.is_some();
    policy.confirm && first.as_expected && found && !broken
}

fn subject(case: &Case) -> Subject<'_> {
    Subject {
        test: case.name(),
        file: case.origin.file,
        line: case.origin.line,
        column: case.origin.column,
        again: again::command(case),
        allowed: config::allowed(&case.options, case.origin.manifest_dir)
            .unwrap_or_else(|error| outcome::fail(case, &error, "")),
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

/// Whether the run's settings leave the test out on this machine.
pub(super) fn is_left_out(case: &Case, policy: &Policy) -> bool {
    let left_out = policy.without_gpu == WithoutGpu::Skip && blind::no_gpu();
    if left_out {
        summary::skipped(case.name());
    }
    left_out
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
