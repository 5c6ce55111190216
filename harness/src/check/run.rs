//! One run of a body, from its baseline until everything about its leaks is known.

use std::thread;
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;

use super::collect::{OfRun, freed_before, freed_by_stack, freed_inside};
use super::readings::{self, Baseline, ReserveWatch};
use super::scopes::open::{Open, current};
use super::scopes::tree::{self, FailureId, Lineage};
use super::turn::concurrency::ProcessAtBegin;
use super::turn::gate::Turn;
use crate::config::Policy;
use crate::device::captures;
use crate::judge::{
    ContextError, Facts, Limits, Others, RunInput, SegmentMap, Usage, is_anything_left,
    is_more_reserved, timeline,
};
use crate::ledger::{self, GraphUsage, Mark, MeterReading, ScopeId, Snapshot, StackId, Watch};
use crate::report::check_report::{Limit, PrimaryKept};
use crate::report::symbols;
use crate::{call_site, capture};

/// A run that has begun.
#[derive(Debug)]
pub(crate) struct Run {
    open: Open,
    /// The beginning of the check's first run. Live records that were created since then are
    /// counted.
    since: Beginning,
    began: Beginning,
    budget: Limits,
    /// How many samples of each figure are kept.
    samples: usize,
    others: ProcessAtBegin,
    /// How many records had been created outside any scope when the run began.
    unowned: u64,
    /// Whether a stream was being captured when the run began.
    was_capturing: bool,
    baseline: Baseline,
    segments: SegmentMap,
    broken_before: Option<ContextError>,
    watch: Watch<'static>,
    log: Option<PeakLog>,
    /// Keeps the highest reserves, if they are limited.
    reserves: Option<ReserveWatch>,
}

/// A guard: while it exists, all allocations and frees in this process are logged.
#[derive(Debug)]
pub(super) struct PeakLog(ScopeId);

impl PeakLog {
    pub(super) fn begin(scope: ScopeId) -> Self {
        ledger::live().begin_log(scope);
        Self(scope)
    }

    /// Returns the log's readings of each layer at each place, and the usage of each graph.
    fn read(&self) -> (Vec<MeterReading>, Vec<GraphUsage>) {
        ledger::live().meters().log(self.0)
    }

    /// Returns what [`Self::read`] returns, but without the lifetimes, which only a timeline shows.
    pub(super) fn read_peaks(&self) -> (Vec<MeterReading>, Vec<GraphUsage>) {
        let (mut readings, graphs) = self.read();
        readings.iter_mut().for_each(|it| it.lifetimes.clear());
        (readings, graphs)
    }
}

impl Drop for PeakLog {
    fn drop(&mut self) {
        ledger::live().meters().end_log(self.0);
    }
}

/// When a run began: a position in the ledger's sequence of events, and one in its sequence of
/// anomalies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    at: u64,
    mark: Mark,
}

/// How the body ended, and what must be read before caches are emptied.
struct BodyEnd {
    as_expected: bool,
    failure: Option<FailureId>,
    at: u64,
    reserved: Usage,
    over_budget: Vec<crate::judge::UsageOverBudget>,
    bound: Vec<Limit>,
}

impl Run {
    /// Takes the baseline and begins the run. `peaks` says whether all allocations of the run are
    /// logged, and `confirms` whether the run confirms findings. `earlier` contains the scopes of
    /// the check's earlier runs, the first of which began at `since`.
    pub(crate) fn begin(
        turn: &Turn<'_>,
        facts: &Facts,
        peaks: bool,
        confirms: bool,
        earlier: &[ScopeId],
        since: Option<Beginning>,
    ) -> Self {
        let ledger = ledger::live();
        let budget = facts.budget;
        let outer = current();
        let broken_before = readings::synchronise(ScopeId::NONE);
        let was_capturing = captures::active();
        if outer.is_none() {
            readings::empty_caches();
        }
        let others = ProcessAtBegin::now(turn, earlier);
        let (watch, snapshot) = ledger.watch(outer.is_none() && !turn.met_another());
        let at = ledger.now();
        let usage = readings::read(&snapshot, !others.is_alone(), outer.is_none(), None);
        let baseline = Baseline { usage, at };
        let was_capturing = was_capturing || captures::active();
        let segments = readings::segments();
        let open = Open::new(confirms);
        let reserves = budget.max_reserved;
        let reserves = reserves.map(|_| ReserveWatch::begin(open.scope()));
        for scope in earlier {
            tree::hand_on(*scope, open.scope());
        }
        let metered = budget.metered();
        let metered = metered.map(|layer| (layer, Lineage::of(open.scope())));
        if confirms {
            // If an address is freed twice, the first free is needed to explain the second one.
            ledger.free_log.begin(&[open.scope()], Instant::now);
            capture::take_stacks_of_frees(true);
        }
        ledger.between_events(|| {
            if let Some(outer) = outer.filter(|_| !confirms) {
                ledger.meters().nest(open.scope(), outer);
            }
            if let Some((layer, lineage)) = metered {
                ledger.meters().begin(open.scope(), layer);
                // Threads that earlier runs have started work for this run from now on.
                for scope in lineage.scopes() {
                    ledger.meters().nest(scope, open.scope());
                }
            }
            let began = Beginning {
                at: ledger.now(),
                mark: ledger.anomalies.mark(),
            };
            Self {
                since: since.unwrap_or(began),
                began,
                budget,
                samples: match facts.rounds {
                    0 | 1 => timeline::SAMPLES,
                    _ => timeline::SAMPLES_OF_A_ROUND,
                },
                others,
                unowned: snapshot.unowned,
                was_capturing,
                baseline,
                segments,
                broken_before,
                watch,
                log: peaks.then(|| PeakLog::begin(open.scope())),
                reserves,
                open,
            }
        })
    }

    /// Returns when the first run of this run's check began.
    pub(crate) fn since(&self) -> Beginning {
        self.since
    }

    pub(crate) fn scope(&self) -> ScopeId {
        self.open.scope()
    }

    /// Ends the run and returns its results. First waits until nothing is left, until nothing can
    /// still be freed, or until the time is up. `as_expected` says whether the body ended as
    /// expected. `failure` is the assertion of a nested check whose panic made the body fail, if
    /// there was one.
    pub(crate) fn finish(
        self,
        policy: &Policy,
        turn: &Turn<'_>,
        as_expected: bool,
        failure: Option<FailureId>,
    ) -> RunInput {
        let body = self.body_ended(as_expected, failure);
        let start = Instant::now();
        let mut was_read_again = false;
        loop {
            let (mut input, lineage) = self.look(&body, turn);
            let pause = if !is_anything_left(&input, is_cudas_own) {
                None
            } else if could_still_free(&lineage) && start.elapsed() < policy.settle {
                Some(Duration::from_millis(1))
            } else if was_read_again {
                None
            } else {
                was_read_again = true;
                Some(Duration::from_millis(10).min(policy.settle))
            };
            match pause {
                Some(pause) => thread::sleep(pause),
                None => {
                    self.complete(&mut input, &lineage, &body);
                    input.freed_earlier = self.open.close();
                    return input;
                }
            }
        }
    }

    fn body_ended(&self, as_expected: bool, failure: Option<FailureId>) -> BodyEnd {
        capture::take_stacks_of_frees(false);
        let reserves = self.reserves.as_ref();
        let reserved = reserves.map_or_else(readings::read_probed, ReserveWatch::end);
        let ledger = ledger::live();
        ledger.between_events(|| {
            let metered = ledger.meters().end(self.scope());
            let before = &self.baseline.usage;
            let (over_budget, bound) = self.budget.exceeded(metered, before, &reserved);
            BodyEnd {
                as_expected,
                failure,
                at: ledger.now(),
                over_budget,
                bound,
                reserved,
            }
        })
    }

    /// Waits for the devices, empties the caches, and reads everything.
    fn look(&self, body: &BodyEnd, turn: &Turn<'_>) -> (RunInput, Lineage) {
        let broken = readings::synchronise(self.scope());
        if broken.is_none() {
            readings::empty_caches();
        }
        let others = self.others.until_now(turn);
        let read = self.read(body, others, broken);
        let others_by_now = self.others.until_now(turn);
        // If threads appeared during the reading, the sums and records include their activity, so
        // the reading is repeated.
        match others_by_now.may_have_moved_sums() == others.may_have_moved_sums() {
            true => read,
            false => self.read(body, others_by_now, broken),
        }
    }

    /// Reads the sums and the live records of the run, given this other activity.
    fn read(
        &self,
        body: &BodyEnd,
        others: Others,
        broken: Option<ContextError>,
    ) -> (RunInput, Lineage) {
        let ledger = ledger::live();
        let snapshot = ledger.snapshot(self.scope());
        let beside_others = others.may_have_moved_sums();
        let (empties, baseline) = (broken.is_none(), Some(&self.baseline));
        let usage = readings::read(&snapshot, beside_others, empties, baseline);
        let lineage = Lineage::of(self.scope());
        let mut input = RunInput {
            began: self.began.at,
            ended: body.at,
            as_expected: body.as_expected,
            // Without events, only the figures of a probe can differ.
            saw_events: ledger.now() != self.began.at || usage.layers != self.baseline.usage.layers,
            is_capturing: self.was_capturing || captures::active(),
            baseline: self.baseline.usage.clone(),
            end: usage,
            over_budget: body.over_budget.clone(),
            bound: body.bound.clone(),
            probed: readings::probed(),
            failed_inside: lineage.failed_sums(body.failure),
            others,
            broken_before: self.broken_before,
            broken_inside: broken.filter(|_| self.broken_before.is_none()),
            ..RunInput::default()
        };
        if self.may_have_left(&snapshot, &lineage) || is_more_reserved(&input) {
            input.segments_before = self.segments.clone();
            input.segments = readings::segments();
            input.holdings = ledger.holdings().into_iter().collect();
            let of_run = OfRun {
                lineage: &lineage,
                failure: body.failure,
            };
            of_run.collect_records(self.since.at, &mut input);
            of_run.collect_overwritten(self.since.at, self.since.mark, &mut input);
            of_run.collect_anomalies(self.began.mark, &mut input);
        }
        (input, lineage)
    }

    /// Whether any record, live or not, may concern this run. If not, the run is clean, and nothing
    /// is searched, even if there are a million other records.
    fn may_have_left(&self, snapshot: &Snapshot, lineage: &Lineage) -> bool {
        let ledger = ledger::live();
        snapshot.live != 0
            || !lineage.is_single()
            || snapshot.unowned != self.unowned
            || ledger
                .scopes
                .all_handed_over(|scope| lineage.has(scope))
                .count
                != 0
            || ledger.anomalies.mark() != self.began.mark
    }

    /// Adds what is read only once, when there is nothing left to wait for.
    fn complete(&self, input: &mut RunInput, lineage: &Lineage, body: &BodyEnd) {
        let ledger = ledger::live();
        let stacks: FxHashSet<StackId> = input
            .live
            .iter()
            .map(|live| live.record.made.caller.stack)
            .collect();
        for stack in stacks {
            if let Some(count) = ledger.allocations(stack, self.scope()) {
                input.allocations.insert(stack, count);
            }
        }
        input.freed_before = freed_before(&input.anomalies, self.began.at);
        if !input.live.is_empty() {
            input.freed_of_run = freed_by_stack(self.scope(), lineage.has_no_children());
            input.freed_inside = freed_inside(self.scope(), &input.live);
        }
        let kept = ledger.scopes.primaries_kept(|scope| lineage.has(scope));
        input.primaries = kept
            .into_iter()
            .map(|(place, times)| PrimaryKept { place, times })
            .collect();
        input.threads_running = lineage.live_threads() as u64;
        let over = ledger.now();
        let curves = ledger.curves(&self.watch, self.began.at, self.samples);
        input.timeline = timeline::of_run(input, &body.reserved, over, curves);
        (input.peaks, input.graphs) = self.log.as_ref().map(PeakLog::read).unwrap_or_default();
    }
}

/// Whether a free is in flight or a thread of the run is still alive.
fn could_still_free(lineage: &Lineage) -> bool {
    ledger::live().frees_in_flight() || lineage.live_threads() != 0
}

/// Whether one of CUDA's own libraries made the call with this backtrace.
fn is_cudas_own(stack: StackId) -> bool {
    call_site::is_cudas_own(&symbols::frames(stack, &[]))
}
