//! One run of a body between two readings.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gpu_leak_check_threads as threads;
use serde::{Deserialize, Serialize};

use super::body::{self, End};
use super::company;
use super::names::{Live, Names};
use super::recording::{self, BodyEnded, Closed, Opened};
use super::sources::{self, Poisoned};
use crate::case::{Case, ShouldPanic};
use crate::config::Policy;
use crate::judge::{self, Budget, Claims, Held, Over, Reading, What};
use crate::ledger::{self, Anomaly, Kind, Ledger, Mark, Record, Returned, ScopeId};
use crate::report::units;

/// What one run of a body showed.
#[derive(Debug)]
pub(crate) struct Measured {
    /// The scope it worked for.
    pub(crate) scope: ScopeId,
    /// How the body ended.
    pub(crate) end: End,
    /// Whether that is how it should end.
    pub(crate) as_expected: bool,
    /// How long it ran.
    pub(crate) body_time: Duration,
    /// Before it.
    pub(crate) before: Reading,
    /// After it, everything given back that can be.
    pub(crate) after: Reading,
    /// What is left.
    pub(crate) held: Vec<Held>,
    /// What is left and may be.
    pub(crate) tolerated: Vec<Held>,
    /// Limits that the run passed.
    pub(crate) over: Vec<Over>,
    /// Things to know, a sentence each.
    pub(crate) notes: Vec<String>,
    /// What nobody can be charged with.
    pub(crate) owner_unknown: Unknown,
    /// A context that failed before the body began.
    pub(crate) poisoned_before: Option<Poisoned>,
    /// A context that failed during it.
    pub(crate) poisoned_inside: Option<Poisoned>,
    /// Whether any source reported anything.
    pub(crate) saw_events: bool,
}

/// Records whose owner is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

/// Runs the body once and looks at what it left.
pub(crate) fn measure(case: &Case, policy: &Policy) -> Measured {
    measure_round(case, policy, &mut Vec::new())
}

/// As [`measure`], for a round of several: what the `earlier` ones left counts as left, too. Adds
/// its own scope to them.
pub(crate) fn measure_round(case: &Case, policy: &Policy, earlier: &mut Vec<ScopeId>) -> Measured {
    let stretch = Stretch::begin(case.name(), policy, earlier);
    earlier.push(stretch.scope);
    let body = |scope| body::run(case.name(), scope, case.body);
    run_in(stretch, policy, case.should_panic, body)
}

/// As [`measure`], with a body that is run by `run` for the scope it is told.
pub(crate) fn measure_with(
    name: &str,
    policy: &Policy,
    should_panic: Option<ShouldPanic>,
    run: impl FnOnce(ScopeId) -> End,
) -> Measured {
    run_in(Stretch::begin(name, policy, &[]), policy, should_panic, run)
}

fn run_in(
    stretch: Stretch<'_>,
    policy: &Policy,
    should_panic: Option<ShouldPanic>,
    run: impl FnOnce(ScopeId) -> End,
) -> Measured {
    let start = Instant::now();
    let end = run(stretch.scope);
    let body_time = start.elapsed();
    let over = stretch.over_budget(&policy.budget);
    let as_expected = end.as_expected(should_panic);
    Measured {
        end,
        body_time,
        over,
        ..stretch.settle(policy, as_expected)
    }
}

/// Whether this thread works for a check that is under way. A thread of a pool may still have the
/// token of one that is over.
pub(crate) fn is_inside_a_check() -> bool {
    current_check().is_some()
}

/// The scope of the check that this thread works for.
fn current_check() -> Option<ScopeId> {
    let scope = u32::try_from(threads::token()).map(ScopeId).ok()?;
    ledger::live().is_open(scope).then_some(scope)
}

/// A scope between its beginning and its end.
#[derive(Debug)]
pub(crate) struct Stretch<'ledger> {
    ledger: &'ledger Ledger,
    scope: ScopeId,
    /// Those of earlier rounds of the same check.
    earlier: Vec<ScopeId>,
    began: u64,
    unowned: u64,
    mark: Mark,
    before: Reading,
    poisoned_before: Vec<Poisoned>,
}

/// What may stay.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Limits {
    tolerance: u64,
    reserved_tolerance: u64,
}

impl From<&Policy> for Limits {
    fn from(policy: &Policy) -> Self {
        Self {
            tolerance: policy.tolerance,
            reserved_tolerance: policy.reserved_tolerance,
        }
    }
}

/// What there was to see at the end, beside the ledger.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    poisoned: Vec<Poisoned>,
    after: Reading,
    claims: Claims,
    /// Whether nothing but this check could run.
    alone: bool,
}

/// What only the ledger knows of a scope that ends.
#[derive(Clone, Copy, Debug)]
struct Closing {
    saw_events: bool,
    returned: Returned,
}

/// What a look at the end showed.
struct Left {
    held: Vec<Held>,
    tolerated: Vec<Held>,
    owner_unknown: Unknown,
    notes: Vec<String>,
}

impl<'ledger> Stretch<'ledger> {
    fn begin(name: &str, policy: &Policy, earlier: &[ScopeId]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let scope = ScopeId(NEXT.fetch_add(1, Ordering::Relaxed));
        let ledger = ledger::live();
        let outer = current_check();
        let poisoned = sources::synchronise(ScopeId::NONE);
        if outer.is_none() {
            sources::empty_caches();
            ledger.counters().restart_peaks();
        }
        if policy.budget.reserved.is_some() {
            sources::restart_most_reserved();
        }
        let opened = Opened {
            scope,
            outer,
            earlier: earlier.to_vec(),
            metered: policy.budget.metered(),
            test: name.to_owned(),
            before: sources::read(),
            poisoned,
        };
        ledger.between_events(|| {
            ledger.open_scope(scope);
            recording::opened(&opened);
            Self::opened(ledger, opened)
        })
    }

    /// The stretch of a scope that was just opened.
    pub(crate) fn opened(ledger: &'ledger Ledger, opened: Opened) -> Self {
        let scope = opened.scope;
        if let Some(outer) = opened.outer {
            ledger.nest(scope, outer);
        }
        if let Some(layer) = opened.metered {
            ledger.meter(scope, layer);
        }
        Self {
            ledger,
            scope,
            earlier: opened.earlier,
            before: opened.before,
            poisoned_before: opened.poisoned,
            unowned: ledger.unowned(),
            mark: ledger.mark(),
            began: ledger.now(),
        }
    }

    /// The limits that the body passed: read before anything is given back.
    fn over_budget(&self, budget: &Budget) -> Vec<Over> {
        let at_most = match budget.reserved {
            Some(_) => sources::read_most_reserved(),
            None => Reading::default(),
        };
        self.ledger.between_events(|| {
            let body_ended = BodyEnded {
                scope: self.scope,
                budget: *budget,
                at_most,
            };
            recording::body_ended(&body_ended);
            self.over(&body_ended)
        })
    }

    /// The limits that the body passed, at its end.
    pub(crate) fn over(&self, ended: &BodyEnded) -> Vec<Over> {
        let mut over = ended.budget.passed_by(self.ledger.metered(self.scope));
        over.extend(ended.budget.passed_by_reserve(&self.before, &ended.at_most));
        over
    }

    /// Looks until nothing is left, nothing can still be freed, or the time is up.
    fn settle(&self, policy: &Policy, as_expected: bool) -> Measured {
        let limits = Limits::from(policy);
        let start = Instant::now();
        let mut reread = false;
        loop {
            let seen = self.see();
            let step = self.ledger.between_events(|| {
                let left = self.look(limits, &seen, &Live);
                let pause = if left.held.is_empty() {
                    None
                } else if self.could_still_free() && start.elapsed() < policy.settle {
                    Some(Duration::from_millis(1))
                } else if reread {
                    None
                } else {
                    reread = true;
                    Some(Duration::from_millis(10).min(policy.settle))
                };
                if let Some(pause) = pause {
                    return Err(pause);
                }
                recording::closed(|| Closed {
                    scope: self.scope,
                    as_expected,
                    limits,
                    seen: seen.clone(),
                });
                Ok((left, self.close()))
            });
            match step {
                Ok((left, closing)) => return self.measured(seen, left, closing, as_expected),
                Err(pause) => thread::sleep(pause),
            }
        }
    }

    /// Whether a free is in flight, or a thread that works for this scope lives on.
    fn could_still_free(&self) -> bool {
        self.ledger.releases_in_flight() || threads::live(u64::from(self.scope.0)) != 0
    }

    /// Waits for the devices, empties the caches and reads everything.
    fn see(&self) -> Seen {
        let poisoned = sources::synchronise(self.scope);
        if poisoned.is_empty() {
            sources::empty_caches();
        }
        let after = sources::read();
        // Whose segments they are matters only where something is left, or to whom replays it.
        let claims = if self.may_have_left() || recording::is_on() {
            sources::claims()
        } else {
            Claims::default()
        };
        recording::symbols_so_far();
        Seen {
            poisoned,
            after,
            claims,
            alone: company::one_test_at_a_time(),
        }
    }

    /// Whether any record can be this scope's business.
    fn may_have_left(&self) -> bool {
        self.ledger.live_in(self.scope) != 0
            || self.ledger.unowned() != self.unowned
            || !self.earlier.is_empty()
    }

    /// Judges what is in the ledger now and `seen` beside it. Asks nothing else.
    fn look(&self, limits: Limits, seen: &Seen, names: &dyn Names) -> Left {
        let mut left = Left {
            held: Vec::new(),
            tolerated: Vec::new(),
            owner_unknown: Unknown::default(),
            notes: Vec::new(),
        };
        self.live_records(limits, seen, names, &mut left);
        self.anomalies(seen, &mut left);
        let reserves = judge::risen(&self.before, &seen.after, limits.reserved_tolerance);
        let alone = judge::unexplained(reserves, &mut left.held);
        if self.strangers_may_run(seen) || left.owner_unknown.count != 0 {
            // A reserve has no owner: theirs would be taken for the test's.
            return left;
        }
        left.held.extend(alone);
        left
    }

    /// Whether threads of no open scope have taken something that need not be this test's.
    fn strangers_may_run(&self, seen: &Seen) -> bool {
        self.ledger.unowned() != self.unowned && !seen.alone
    }

    /// What is live and was made inside.
    fn live_records(&self, limits: Limits, seen: &Seen, names: &dyn Names, left: &mut Left) {
        let ledger = self.ledger;
        let mut records = Vec::new();
        if ledger.live_in(self.scope) != 0 || !self.earlier.is_empty() {
            records.extend(ledger.select(|record| self.owns(record)));
        }
        if ledger.unowned() != self.unowned {
            let mut strangers = ledger.select(|record| self.is_a_stranger(record));
            if seen.alone {
                // A thread whose scope has closed may be at an earlier test's work still.
                let is_of_none = |record: &mut Record| record.made.caller.scope == ScopeId::NONE;
                records.extend(strangers.extract_if(.., is_of_none));
            }
            left.owner_unknown.count = strangers.len() as u64;
            left.owner_unknown.bytes =
                judge::total(strangers.iter().map(|record| record.made.bytes));
        }
        if records.is_empty() {
            return;
        }
        records.retain(|record| {
            seen.claims.owner(record).is_none() && !is_the_runtime_s_code(record, names)
        });
        let foreign = |record: &Record| (!self.owns(record)).then_some(record.made.caller.thread);
        let live = records
            .iter()
            .map(|record| (*record, What::Live(record.made.kind), foreign(record)));
        left.held = judge::group(live);
        left.tolerated = judge::tolerate(limits.tolerance, &mut left.held);
        let tolerated = judge::total(left.tolerated.iter().map(|held| held.bytes));
        if tolerated != 0 {
            left.notes.push(format!(
                "{} stayed, within the tolerance of {}",
                units::exact_size(tolerated),
                units::exact_size(limits.tolerance)
            ));
        }
        for held in &mut left.held {
            let taken = ledger.stacks().taken(held.key.stack, self.scope);
            held.taken = taken.unwrap_or(held.count).max(held.count);
        }
    }

    /// Made by this check.
    fn owns(&self, record: &Record) -> bool {
        let scope = record.made.caller.scope;
        scope == self.scope || self.earlier.contains(&scope)
    }

    /// Made inside, by a thread of no open scope.
    fn is_a_stranger(&self, record: &Record) -> bool {
        record.sequence >= self.began && !self.ledger.is_open(record.made.caller.scope)
    }

    /// What happened inside beside the coming and going of records.
    fn anomalies(&self, seen: &Seen, left: &mut Left) {
        let mine = |anomaly: &Anomaly| {
            let scope = anomaly.caller().scope;
            scope == self.scope || (!self.ledger.is_open(scope) && seen.alone)
        };
        let mut anomalies = self.ledger.anomalies_since(self.mark);
        anomalies.retain(mine);
        judge::happened(&anomalies, !seen.poisoned.is_empty(), &mut left.held);
        let failed = |anomaly: &&Anomaly| matches!(anomaly, Anomaly::FailedCreation { .. });
        let failed = anomalies.iter().filter(failed).count() as u64;
        if failed != 0 {
            let calls = units::quantity(failed, "creating call");
            left.notes.push(format!("{calls} failed inside the test"));
        }
    }

    /// Ends the scope; answers with what only the ledger knew of it.
    fn close(&self) -> Closing {
        Closing {
            saw_events: self.ledger.now() != self.began,
            returned: self.ledger.close_scope(self.scope),
        }
    }

    fn measured(&self, seen: Seen, left: Left, closing: Closing, as_expected: bool) -> Measured {
        let mut notes = left.notes;
        let returned = closing.returned;
        if returned.count != 0 {
            notes.push(format!(
                "{}, {}, taken before the test and given back inside it: no credit",
                units::quantity(returned.count, "object"),
                units::exact_size(returned.bytes)
            ));
        }
        let poisoned_before = self.poisoned_before.first().copied();
        let poisoned_inside = if poisoned_before.is_some() {
            None
        } else {
            seen.poisoned.first().copied()
        };
        Measured {
            scope: self.scope,
            end: End::Passed,
            as_expected,
            body_time: Duration::ZERO,
            before: self.before.clone(),
            after: seen.after,
            held: left.held,
            over: Vec::new(),
            tolerated: left.tolerated,
            notes,
            owner_unknown: left.owner_unknown,
            poisoned_before,
            poisoned_inside,
            saw_events: closing.saw_events,
        }
    }

    /// Ends the scope of a recording, where the recorded one ended.
    pub(crate) fn replayed(&self, closed: Closed, names: &dyn Names) -> Measured {
        let left = self.look(closed.limits, &closed.seen, names);
        self.measured(closed.seen, left, self.close(), closed.as_expected)
    }
}

/// Code that CUDA's own libraries loaded when they first needed it stays for the process.
fn is_the_runtime_s_code(record: &Record, names: &dyn Names) -> bool {
    matches!(record.made.kind, Kind::Module | Kind::Library)
        && names.is_cudas_own(record.made.caller.stack)
}

#[cfg(test)]
mod tests {
    use super::{ScopeId, is_inside_a_check, ledger, threads};

    #[test]
    fn the_token_of_a_check_that_is_over_counts_for_nothing() {
        let scope = ScopeId(u32::MAX);
        let outer = threads::set_token(u64::from(scope.0));
        ledger::live().open_scope(scope);
        let while_open = is_inside_a_check();
        ledger::live().close_scope(scope);
        let afterwards = is_inside_a_check();
        threads::set_token(outer);
        assert_eq!((while_open, afterwards), (true, false));
    }
}
