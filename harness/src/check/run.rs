//! The whole flow of one check.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use super::blind::{self, Blindness};
use super::conclude::{Subject, conclude, conclude_rounds};
use super::conclude::{expect, referrers, rounds, uncounted};
use super::isolate;
use super::measure::body;
use super::measure::{Earlier, Measured, measure, run_unmeasured};
use super::outcome::{self, Outcome};
use super::process::listen::{listen, record_from_here};
use super::process::summary::{self, UnderWay};
use super::process::{late, warmup};
use super::recording::{self, Runs};
use super::scopes::open::is_inside_a_check;
use super::turn::company::{self, Company};
use super::turn::entry;
use super::turn::gate::{Gate, Manner, Turn};
use crate::__inject;
use crate::case::{Case, ShouldPanic};
use crate::config::{self, Mode, Policy, WithoutGpu};
use crate::ledger::ScopeId;
use crate::report::Sink;
use crate::report::model::Report;

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
pub(super) enum Caller {
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
        // The library that a command has had loaded holds the one subscription to CUPTI.
        let is_crowded = __inject::is_here();
        if !nested && (is_crowded || (policy.isolate && !company::is_isolated())) {
            return isolate::run(case);
        }
        if policy.mode == Mode::Off || is_unchecked(case) {
            let end = body::run(case.name(), ScopeId::NONE, case.body);
            return outcome::end_unjudged(case, end);
        }
        record_from_here(case.origin.manifest_dir, case.origin.file);
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

pub(super) fn take_turn(policy: &Policy, caller: Caller) -> Turn<'static> {
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
    match judge(&Task::of(case), policy, turn, run) {
        Ok(judged) => {
            if let Some(missed) = judged
                .missed
                .filter(|_| judged.end.as_expected(case.should_panic))
            {
                outcome::fail(case, &missed, &outcome::story(&judged.report));
            }
            outcome::conclude(case, judged.end, &judged.report, judged.outcome)
        }
        Err(end) => outcome::end_unjudged(case, end),
    }
}

/// What there is to judge, beside the body.
pub(super) struct Task<'a> {
    pub(super) subject: Subject<'a>,
    pub(super) manifest_dir: Option<&'a str>,
    pub(super) should_panic: Option<ShouldPanic>,
}

impl<'a> Task<'a> {
    /// That of an annotated test.
    pub(super) fn of(case: &'a Case) -> Self {
        let subject = Subject::of(case);
        let allowed = config::allowed(&case.options, case.origin.manifest_dir)
            .unwrap_or_else(|error| outcome::fail_at(&subject, &error, ""));
        Self {
            subject: Subject { allowed, ..subject },
            manifest_dir: case.origin.manifest_dir,
            should_panic: case.should_panic,
        }
    }
}

/// A body's run and what it left.
pub(super) struct Judged {
    pub(super) end: body::End,
    pub(super) report: Report,
    /// What the report means by the policy.
    pub(super) outcome: Outcome,
    /// How what was left differs from what was to be left.
    pub(super) missed: Option<String>,
}

/// Runs a body as often as it takes to judge it; the end of a warm-up that did not end as it
/// should.
pub(super) fn judge(
    task: &Task<'_>,
    policy: &Policy,
    turn: Option<&Turn<'_>>,
    run: impl Fn(ScopeId) -> body::End,
) -> Result<Judged, body::End> {
    let start = Instant::now();
    let company = Company::of(turn);
    let _under_way = begin(task);
    let mut earlier = Earlier::default();
    for _ in 0..policy.warmup {
        let (scope, end) = run_unmeasured(task.subject.test, company, &run);
        if !end.as_expected(task.should_panic) {
            return Err(end);
        }
        earlier.scopes.push(scope);
    }
    let mut measure = |earlier: &mut Earlier| {
        let test = task.subject.test;
        let measured = measure(test, policy, task.should_panic, company, earlier, &run);
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
        by_rounds(task, policy, rounds)
    } else {
        let first = measure(&mut earlier);
        // Of both runs together, so that what the second one only replaces is no loss.
        earlier.since = Some(first.began);
        let second = needs_confirmation(&first, policy).then(|| measure(&mut earlier));
        once(task, policy, &earlier, first, second)
    };
    uncounted::tell(&mut report);
    report.waited_ms = turn.map_or(0, |turn| turn.waited.as_millis() as u64);
    report.overhead_ms = start.elapsed().saturating_sub(body_time).as_secs_f64() * 1e3;
    report.configured_by = config::file_in_use(task.manifest_dir).map(str::to_owned);
    let missed = match policy.expect {
        // Who could not see cannot miss anything.
        Some(expect) if blindness.is_none() => expect::settle(expect, &mut report).err(),
        _ => None,
    };
    let outcome = outcome::weigh(&report, policy, blindness.as_ref());
    // A test that is to leave something fails where it does not.
    report.outcome = Some(missed.as_ref().map_or(outcome, |_| Outcome::Fail));
    file(task, &report, &ended);
    Ok(Judged {
        end: ended.end,
        report,
        outcome,
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
fn once(
    task: &Task<'_>,
    policy: &Policy,
    earlier: &Earlier,
    first: Measured,
    second: Option<Measured>,
) -> Seen {
    let blindness = blind::blindness(first.saw_events);
    let runs = Runs::Once(first.scope, second.as_ref().map(|second| second.scope));
    let mut report = recording::concluded(runs, blindness.as_ref(), policy.expect, |names| {
        let (subject, second) = (task.subject.clone(), second.as_ref());
        conclude(subject, &first, second, blindness.as_ref(), names)
    });
    late::await_release(&report, &first, second.as_ref(), &earlier.scopes);
    referrers::tell(&mut report, &first, &earlier.scopes, policy.held_by);
    let again = second.map_or(Duration::ZERO, |second| second.body_time);
    Seen {
        report,
        body_time: first.body_time + again,
        ended: first,
        blindness,
    }
}

/// Several, of which only what grows in each is told.
fn by_rounds(task: &Task<'_>, policy: &Policy, rounds: rounds::Rounds) -> Seen {
    let blindness = blind::blindness(rounds.first.saw_events);
    let runs = Runs::Rounds(rounds.scopes.clone());
    let mut report = recording::concluded(runs, blindness.as_ref(), policy.expect, |names| {
        conclude_rounds(task.subject.clone(), &rounds, blindness.as_ref(), names)
    });
    referrers::tell(&mut report, &rounds.first, &rounds.scopes, policy.held_by);
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
fn begin(task: &Task<'_>) -> UnderWay {
    let subject = &task.subject;
    record_from_here(task.manifest_dir, subject.file);
    listen(task.manifest_dir, subject.file);
    let under_way = summary::began(subject.test);
    Sink::global().began(subject.test, subject.file, subject.line);
    warmup::run_hooks(subject);
    under_way
}

/// Whether the body runs a second time: only what repeats is a leak.
fn needs_confirmation(first: &Measured, policy: &Policy) -> bool {
    let found = !first.held.is_empty() || !first.over.is_empty();
    // In a broken context the body could only fail.
    let broken = first.poisoned_before.is_some() || first.poisoned_inside.is_some();
    policy.confirm && first.as_expected && found && !broken
}

/// Writes the report down where the run's summary and other programs find it.
fn file(task: &Task<'_>, report: &Report, first: &Measured) {
    let test = task.subject.test;
    let unowned = first.owner_unknown;
    summary::add(report, unowned);
    Sink::global().finished(report);
    Sink::global().unowned(test, unowned.count, unowned.bytes);
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
