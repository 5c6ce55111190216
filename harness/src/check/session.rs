//! One judged scope with its runs, from the first baseline to the report. The code is the same for
//! a test, a block, an explicit scope, a whole program and an attached program.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::body::End;
use super::outcome::{self, Checked, Outcome};
use super::process::exit_summary::{self, UnderWay};
use super::process::late;
use super::process::prepare::{self, listen, record_from_here};
use super::run::{Beginning, Run};
use super::scopes::open::{Open, current};
use super::scopes::tree::{self, Lineage};
use super::settle_with::settle_after;
use super::turn::concurrency::Runner;
use super::turn::gate::Turn;
use super::{assertion, blind, holders, naming, nested_decisions, readings, recording};
use crate::api::MissedBefore;
use crate::capture::thread;
use crate::case::ShouldPanic;
use crate::config::{self, CheckSettings, Mode, Policy};
use crate::judge::suppressions::Date;
use crate::judge::{
    CheckInput, CheckResult, Facts, RunInput, Subject, Trend, held, judge, needs_another_run,
};
use crate::ledger::{self, Amount, ScopeId};
use crate::report::check_report::{CheckStatus, FindingKind, Reason, Report};
use crate::report::{Code, Sink, headline, text};

/// A check that has begun.
#[derive(Debug)]
pub(crate) struct Session {
    input: CheckInput,
    policy: Policy,
    /// How many times the body runs before it is measured.
    warmup: u32,
    /// The calls and bindings that had already been missed when the check began.
    missed_before: MissedBefore,
    should_panic: Option<ShouldPanic>,
    manifest_dir: Option<String>,
    turn: Turn<'static>,
    /// The scopes of the check's runs so far, including warm-ups.
    scopes: Vec<ScopeId>,
    /// When the first run of the check began.
    since: Option<Beginning>,
    began: Instant,
    body_time: Duration,
    /// How the body ended.
    end: Option<End>,
    /// Whether this check is nested in a run that only confirms the outer check's findings. If so,
    /// it leaves its own findings to the outer check, and fails only if it failed before.
    is_confirming: bool,
    /// Whether the report goes to the run file and the summary.
    is_filed: bool,
    /// Whether the check began inside another check.
    is_nested: bool,
    stage: Stage,
    /// Records the program's heap blocks since the beginning of the last run that confirms
    /// findings.
    heap: Option<holders::WatchedHeap>,
    /// Marks the check as being in progress until the verdict is in the run file.
    under_way: Option<UnderWay>,
}

/// What a check is doing. If the check is abandoned, this says why it has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The check has not begun, or its result is known.
    Idle,
    /// The check prepares a run, reads figures or judges.
    Reading,
    /// The body runs.
    Body,
    /// A warm-up run of the body has failed.
    WarmupFailed,
}

/// Runs a check: runs the body as often as necessary, and judges it. If a warm-up run fails,
/// returns its end as an error.
pub(crate) async fn check_async(
    mut session: Session,
    mut body: impl AsyncFnMut(ScopeId) -> End,
) -> Result<Checked, End> {
    session.listen();
    session.warm_up(&mut body).await?;
    loop {
        let run = session.begin_run();
        let start = Instant::now();
        let end = settle_after(run.scope(), body(run.scope()).await);
        session.body_time += start.elapsed();
        session.finish_run(run, end);
        if !needs_another_run(&session.input) {
            break;
        }
    }
    Ok(session.finish())
}

/// Does what [`check_async`] does, with a synchronous body.
pub(crate) fn check(
    session: Session,
    mut body: impl FnMut(ScopeId) -> End,
) -> Result<Checked, End> {
    let _runner = Runner::begin();
    let checked = pin!(check_async(session, async |scope| body(scope)));
    match checked.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(checked) => checked,
        Poll::Pending => unreachable!("a synchronous body never waits"),
    }
}

impl Session {
    /// Creates a check of `subject` with these settings.
    pub(crate) fn new(subject: Subject, settings: CheckSettings, turn: Turn<'static>) -> Self {
        let CheckSettings {
            policy,
            test,
            suppressions,
        } = settings;
        let outer = current();
        let is_confirming = outer.is_some_and(tree::is_confirming);
        // An expected leak may be one-time set-up, which further runs do not leave behind.
        let may_differ = test.judged.confirm || test.judged.expect.is_some();
        let facts = Facts {
            confirm: test.judged.confirm && !is_confirming,
            ..test.judged
        };
        Self {
            input: CheckInput {
                subject,
                facts,
                suppressions,
                runs: Vec::with_capacity(1),
                today: today(),
                ..CheckInput::default()
            },
            missed_before: MissedBefore::default(),
            should_panic: None,
            manifest_dir: None,
            turn,
            scopes: Vec::new(),
            since: None,
            began: Instant::now(),
            body_time: Duration::ZERO,
            end: None,
            is_confirming: is_confirming && may_differ,
            heap: None,
            is_filed: true,
            is_nested: outer.is_some(),
            stage: Stage::Idle,
            policy,
            warmup: test.warmup,
            under_way: None,
        }
    }

    /// Marks the session as a test with the attribute. Sets the panic that the test expects and the
    /// package of the test.
    pub(crate) fn of_test(
        mut self,
        should_panic: Option<ShouldPanic>,
        manifest_dir: Option<&str>,
    ) -> Self {
        self.should_panic = should_panic;
        self.manifest_dir = manifest_dir.map(str::to_owned);
        self
    }

    /// Keeps the report out of the run file and the summary, so that only the caller gets it.
    pub(crate) fn unfiled(mut self) -> Self {
        self.is_filed = false;
        self
    }

    /// Marks the session as a check of a whole process, in which nothing runs twice. `is_test` says
    /// whether the process is a test. If so, resources that a static holds are first use.
    pub(crate) fn of_process(mut self, is_test: bool) -> Self {
        self.input.facts.whole_program = true;
        self.input.kept_for_the_process = config::kept_for_the_process();
        (self.input.facts.confirm, self.input.facts.rounds) = (false, 1);
        self.input.trend = Some(Trend::default());
        if !is_test {
            self.policy.held_by = Duration::ZERO;
        }
        self.unfiled()
    }

    /// Returns the report as if `run` were the only run. `is_for_the_trend` says whether `run` is
    /// added to the trend.
    pub(crate) fn preview(&mut self, run: RunInput, is_for_the_trend: bool) -> Report {
        naming::add(&mut self.input.names, &run);
        self.input.runs = vec![run];
        if is_for_the_trend {
            let held = held(&self.input);
            self.input.trend.get_or_insert_default().add(&held);
        }
        let result = judge(&self.input);
        Report::of_check(&mut self.input, &result)
    }

    /// Makes all preparations for the body: intercepts the driver, accepts reports from other
    /// sources, writes the line in the run file by which a killed test is recognised, and runs the
    /// process's warm-ups.
    pub(crate) fn listen(&mut self) {
        let subject = &self.input.subject;
        let manifest_dir = self.manifest_dir.as_deref();
        record_from_here(manifest_dir, &subject.file);
        thread::begins_a_check();
        self.missed_before = listen(manifest_dir, &subject.file);
        if self.is_filed {
            recording::began(subject);
            self.under_way = Some(exit_summary::began(&subject.test));
            Sink::global().began(&subject.test, &subject.file, subject.line);
        }
        if self.policy.mode != Mode::Off
            && let Err(why) = prepare::warm_up()
        {
            let remedy = "correct the `#[warmup]` function; until then, every check fails";
            cannot_begin(subject, Reason::new(Code::Unfinished, why, remedy));
        }
        self.stage = Stage::Reading;
    }

    /// Runs the body's warm-up runs, which are not judged.
    async fn warm_up(&mut self, body: &mut impl AsyncFnMut(ScopeId) -> End) -> Result<(), End> {
        let is_well = |scope| readings::synchronise(scope).is_none();
        for _ in 0..self.warmup {
            let was_well = is_well(ScopeId::NONE);
            let outer = current();
            let open = Open::new(false);
            let scope = open.scope();
            // The check around this one has asked for this run as well.
            if let Some(outer) = outer {
                ledger::live().meters().nest(scope, outer);
            }
            self.name(scope);
            self.stage = Stage::Body;
            let end = settle_after(scope, body(scope).await);
            self.stage = Stage::Reading;
            if was_well && !is_well(scope) {
                blind::blame(&self.input.subject.test, self.turn.met_another());
            }
            open.close();
            self.scopes.push(scope);
            if !end.as_expected(self.should_panic) {
                self.stage = Stage::WarmupFailed;
                return Err(end);
            }
        }
        Ok(())
    }

    pub(crate) fn begin_run(&mut self) -> Run {
        let _unnoted = holders::unnoted();
        let runs = &self.input.runs;
        let confirms = !runs.is_empty() && self.input.facts.rounds <= 1;
        if confirms && !self.policy.held_by.is_zero() {
            // The guard of an earlier run is dropped first, because there can be only one.
            self.heap = None;
            self.heap = holders::watch_heap();
        }
        let run = Run::begin(
            &self.turn,
            &self.input.facts,
            self.policy.peaks,
            confirms,
            &self.scopes,
            self.since,
        );
        self.name(run.scope());
        self.stage = Stage::Body;
        run
    }

    /// Records that `scope` is that of a run of this check, so that the checks inside the scope can
    /// find this check.
    fn name(&self, scope: ScopeId) {
        if self.is_filed {
            tree::name(scope, &Arc::new(self.input.subject.clone()));
        }
    }

    /// Ends `run`, whose body has ended.
    pub(crate) fn finish_run(&mut self, run: Run, end: End) {
        let _unnoted = holders::unnoted();
        self.stage = Stage::Reading;
        let scope = run.scope();
        self.since = Some(run.since());
        let as_expected = end.as_expected(self.should_panic);
        let failure = match &end {
            End::Panicked(payload) if !as_expected => assertion::of_panic(&**payload),
            _ => None,
        };
        let input = run.finish(&self.policy, &self.turn, as_expected, failure);
        if input.broken_inside.is_some() {
            blind::blame(&self.input.subject.test, self.turn.met_another());
        }
        naming::add(&mut self.input.names, &input);
        self.scopes.push(scope);
        self.input.runs.push(input);
        // With rounds, the first round that fails decides how the test ends. A confirming run does
        // not decide this.
        let is_round = self.input.facts.rounds > 1 && !as_expected;
        if self.end.is_some() && !is_round && !as_expected {
            text::tell(&format!(
                "gpu-leak-check: run {} of {}, which was meant to confirm findings, ended \
                 differently from run 1",
                self.input.runs.len(),
                self.input.subject.test
            ));
        }
        if self.end.is_none() || is_round {
            self.end = Some(end);
        }
    }

    /// Returns how many snapshots are in the trend.
    pub(crate) fn snapshots(&self) -> u64 {
        self.input.trend.as_ref().map_or(0, |trend| trend.taken)
    }

    /// Judges the runs and acts on the result.
    pub(crate) fn finish(mut self) -> Checked {
        let _unnoted = holders::unnoted();
        if self.policy.mode == Mode::Off {
            self.input.switch_off(blind::switched_off());
        } else {
            let saw_events = self.input.runs.iter().any(|run| run.saw_events);
            self.input.untraced = blind::untraced(saw_events, &self.missed_before);
        }
        recording::add(&self.input);
        let result = judge(&self.input);
        let mut report = Report::of_check(&mut self.input, &result);
        let end = self.end.take().unwrap_or(End::Passed);
        // The runs are removed, because otherwise the addresses in them would be reported as
        // holders of the leaks.
        let runs = std::mem::take(&mut self.input.runs);
        let unowned = runs
            .first()
            .map_or(Amount::default(), |run| run.owner_unknown);
        if let Some(scope) = self.scopes.last()
            && self.input.facts.rounds <= 1
        {
            nested_decisions::leave_out_further_runs(*scope, &runs);
        }
        drop(runs);
        self.pass_on(&result, &mut report);
        assertion::take_over(&self.scopes, &end, self.should_panic, &mut report);
        let outcome = match self.is_confirming && report.status.is_failure() {
            true => Outcome::Pass,
            false => outcome::weigh(&report, &self.policy, self.input.untraced.as_ref()),
        };
        report.outcome = Some(outcome);
        let has_failed = outcome == Outcome::Fail || self.fails_again(&report);
        let fails = has_failed && end.as_expected(self.should_panic) && self.is_filed;
        let failed = fails.then(|| headline(&report));
        let failure = failed.as_ref();
        let failure = failure.and_then(|message| assertion::fails(&report, message, true));
        if let Some(scope) = self.scopes.last() {
            nested_decisions::record(*scope, &result, failure, &self.input.suppressions);
        }
        self.stage = Stage::Idle;
        if self.under_way.take().is_some() {
            file(&report, unowned);
        }
        Checked {
            end,
            report,
            failed,
        }
    }

    /// Whether a check in a confirming run fails because it failed in the run that is repeated. The
    /// body then ends as before, even if it catches or expects the failure.
    fn fails_again(&self, report: &Report) -> bool {
        let subject = &self.input.subject;
        self.is_confirming
            && report.status.is_failure()
            && current().is_some_and(|outer| tree::has_failed_before(outer, subject))
    }

    /// Searches for the holders of the leaks, and begins to watch for late frees.
    fn pass_on(&self, result: &CheckResult, report: &mut Report) {
        if report.status == CheckStatus::Found(FindingKind::Leaked)
            && self.is_filed
            && let Some(last) = self.scopes.last()
        {
            // The leaks may have been created in scopes inside the check.
            let scopes: Vec<_> = Lineage::of(*last).scopes().collect();
            late::watch_for_frees(report, &scopes, result);
        } else if self.scopes.len() > 1 {
            // A confirming run had begun to watch for frees.
            ledger::live().free_log.end(&self.scopes);
        }
        let (time, whole_program) = (self.policy.held_by, self.input.facts.whole_program);
        holders::add(
            report,
            &result.records,
            time,
            whole_program,
            self.heap.as_ref(),
        );
        report.waited_ms = self.turn.waited.as_millis() as u64;
        let overhead = self.began.elapsed().saturating_sub(self.body_time);
        report.overhead_ms = overhead.as_secs_f64() * 1e3;
        report.configured_by = config::file_in_use(self.manifest_dir.as_deref()).map(str::to_owned);
    }

    /// Returns the report of an abandoned check. Without this report, the process would seem to
    /// have ended inside the check. If a scope inside a check is abandoned, that check takes over
    /// its resources.
    fn unfinished(&self) -> Option<Report> {
        let is_reported = self.is_filed || !(self.is_nested || self.policy.mode == Mode::Off);
        let (what, remedy) = match self.stage {
            _ if !is_reported => return None,
            Stage::Idle => return None,
            Stage::Reading => (
                "the check panicked while the body was not running, for example in a probe",
                "read the panic message; a probe must not panic",
            ),
            Stage::Body if self.is_filed => (
                "the future of the async block was dropped before it completed",
                "await the future to completion",
            ),
            Stage::Body => (
                "the scope was dropped without `finish`",
                "call `finish` at the end of the scope, and `assert_clean` on the report",
            ),
            Stage::WarmupFailed => (
                "a warm-up run of the body failed",
                "correct the body: it must also pass in its warm-up runs",
            ),
        };
        let mut report = Report::about(self.input.subject.clone(), CheckStatus::NotMeasured);
        report.reason = Some(Reason::new(Code::Unfinished, what, remedy));
        report.outcome = Some(match self.stage {
            // The code that dropped the future or the scope goes on, and no panic can stop it.
            Stage::Body => outcome::weigh(&report, &self.policy, None).min(Outcome::Warn),
            _ => Outcome::Fail,
        });
        Some(report)
    }
}

/// Adds the report to the summary and to the run file.
fn file(report: &Report, unowned: Amount) {
    exit_summary::change(|summary| {
        summary.add(report);
        summary.add_unowned(unowned);
    });
    Sink::global().finished(report);
    Sink::global().unowned(&report.test, unowned.count, unowned.bytes);
}

/// Fails the test of a check whose settings are invalid for this reason.
///
/// # Panics
///
/// Always.
pub(super) fn refuse(subject: &Subject, why: String) -> ! {
    let remedy = "correct the option or setting, and run the test again";
    cannot_begin(subject, Reason::new(Code::Settings, why, remedy))
}

/// Fails the test of a check that cannot begin, and files a report, because otherwise the run would
/// not mention the test.
fn cannot_begin(subject: &Subject, reason: Reason) -> ! {
    let why = reason.what.clone();
    let report = Report {
        reason: Some(reason),
        outcome: Some(Outcome::Fail),
        ..Report::about(subject.clone(), CheckStatus::NotMeasured)
    };
    file(&report, Amount::default());
    assertion::fails(&report, &why, true);
    outcome::fail_with(&report, why, "")
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(report) = self.unfinished() {
            outcome::print_report(&report);
            file(&report, Amount::default());
        }
        if let Some(scope) = self.scopes.last() {
            tree::forget(*scope);
        }
    }
}

/// Returns today's date, or 1970-01-01 if the machine's clock is set to an earlier date.
fn today() -> Date {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Date::from_days(since.map_or(0, |since| since.as_secs() / 86_400))
}
