//! One run of a body between two readings.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gpu_leak_check_threads as threads;
use serde::{Deserialize, Serialize};

use super::body::End;
use super::company::Company;
use super::family::{self, Family};
use super::names::{Live, Names};
use super::recording::{self, Began, BodyEnded, Finished, Looked};
use super::sources::{self, Poisoned};
use crate::case::ShouldPanic;
use crate::config::Policy;
use crate::judge::{self, Budget, Claims, Held, Over, Reading, What};
use crate::ledger::{self, Anomaly, Kind, Ledger, Mark, Record, Returned, ScopeId};
use crate::report::units;

/// What one run of a body showed.
#[derive(Debug)]
pub(crate) struct Measured {
    /// The scope it had.
    pub(crate) scope: ScopeId,
    /// When it began, in the order of the ledger's events.
    pub(crate) began: u64,
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

/// The runs of the same check before another one.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// Their scopes: what their threads go on to do is the next run's.
    pub(crate) scopes: Vec<ScopeId>,
    /// Since when what they left counts as left by the next run too; none: each run by itself.
    pub(crate) since: Option<u64>,
}

/// Runs a body once, by `run` for the scope it is told, and looks at what it left. The runs before
/// it were `earlier`.
pub(crate) fn measure(
    name: &str,
    policy: &Policy,
    should_panic: Option<ShouldPanic>,
    company: Company<'_>,
    earlier: &Earlier,
    run: impl FnOnce(ScopeId) -> End,
) -> Measured {
    let mut stretch = Stretch::begin(name, company, policy.budget);
    stretch.since = earlier.since.unwrap_or(stretch.began);
    for scope in &earlier.scopes {
        family::join(*scope, stretch.scope());
    }
    let start = Instant::now();
    let end = run(stretch.scope());
    let body_time = start.elapsed();
    let over = stretch.over_budget();
    let left = stretch.settle(policy, company);
    let as_expected = end.as_expected(should_panic);
    Measured {
        body_time,
        over,
        ..stretch.finish(end, as_expected, left)
    }
}

/// Runs a body in a scope of its own and judges nothing.
pub(crate) fn run_unmeasured(run: impl FnOnce(ScopeId) -> End) -> (ScopeId, End) {
    let open = Open::new();
    let end = run(open.scope);
    (open.scope, end)
}

/// Whether this thread works for a check that is under way. A thread of a pool may still have the
/// token of one that is over.
pub(crate) fn is_inside_a_check() -> bool {
    current().is_some()
}

/// The open scope that this thread works for.
pub(crate) fn current() -> Option<ScopeId> {
    let scope = u32::try_from(threads::token()).map(ScopeId);
    family::open_scope(scope.ok()?)
}

/// A scope that is counted for, until it is dropped.
#[derive(Debug)]
struct Open {
    scope: ScopeId,
    told: bool,
}

impl Open {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let outer = current();
        loop {
            let scope = ScopeId(NEXT.fetch_add(1, Ordering::Relaxed));
            // Its place may be that of a scope that has been open for long.
            if scope != ScopeId::NONE && open(scope) {
                if let Some(outer) = outer {
                    family::join(scope, outer);
                }
                return Self { scope, told: false };
            }
        }
    }

    /// Ends the count of a scope that has been judged.
    fn close(mut self) -> Returned {
        self.told = true;
        family::judged(self.scope);
        close(self.scope)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.told {
            family::abandoned(self.scope);
            close(self.scope);
        }
    }
}

fn open(scope: ScopeId) -> bool {
    let ledger = ledger::live();
    ledger.between_events(|| {
        let opened = ledger.open_scope(scope);
        if opened {
            recording::opened(scope);
        }
        opened
    })
}

fn close(scope: ScopeId) -> Returned {
    let ledger = ledger::live();
    ledger.between_events(|| {
        recording::closed(scope);
        ledger.close_scope(scope)
    })
}

/// What may stay.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Limits {
    tolerance: u64,
    reserved_tolerance: u64,
}

/// What there is to see at the end, beside the ledger.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    poisoned: Vec<Poisoned>,
    after: Reading,
    claims: Claims,
    family: Family,
    since: u64,
    /// Whether nothing but this check could run.
    alone: bool,
    /// Whether another check was at work meanwhile.
    met_a_check: bool,
}

/// A scope between its beginning and its end.
#[derive(Debug)]
pub(crate) struct Stretch<'ledger> {
    ledger: &'ledger Ledger,
    scope: ScopeId,
    /// None in a replay, which opens and closes where the recorded scope was.
    open: Option<Open>,
    began: u64,
    /// What was made since then and is live counts as left: by this run, or by earlier rounds too.
    since: u64,
    budget: Budget,
    unowned: u64,
    mark: Mark,
    before: Reading,
    poisoned_before: Vec<Poisoned>,
}

/// What a reading at the end showed.
#[derive(Debug)]
pub(crate) struct Left {
    seen: Seen,
    held: Vec<Held>,
    tolerated: Vec<Held>,
    owner_unknown: Unknown,
    notes: Vec<String>,
}

impl<'ledger> Stretch<'ledger> {
    /// Begins one here and now, for the test called `name`.
    pub(crate) fn begin(name: &str, company: Company<'_>, budget: Budget) -> Self {
        let ledger = ledger::live();
        let outer = current();
        let poisoned = sources::synchronise(ScopeId::NONE);
        if outer.is_none() {
            sources::empty_caches();
        }
        if outer.is_none() && !company.met_a_check() {
            ledger.counters().restart_peaks();
        }
        if budget.reserved.is_some() {
            sources::restart_most_reserved();
        }
        let before = sources::read();
        let open = Open::new();
        let began = Began {
            scope: open.scope,
            outer,
            budget,
            test: name.to_owned(),
            before,
            poisoned,
        };
        ledger.between_events(|| {
            recording::began(&began);
            Self {
                open: Some(open),
                ..Self::began(ledger, began)
            }
        })
    }

    /// That of a scope which is open already.
    pub(crate) fn began(ledger: &'ledger Ledger, began: Began) -> Self {
        let scope = began.scope;
        if let Some(outer) = began.outer {
            ledger.nest(scope, outer);
        }
        if let Some(layer) = began.budget.metered() {
            ledger.meter(scope, layer);
        }
        let now = ledger.now();
        Self {
            ledger,
            scope,
            open: None,
            budget: began.budget,
            since: now,
            began: now,
            before: began.before,
            poisoned_before: began.poisoned,
            unowned: ledger.unowned(),
            mark: ledger.mark(),
        }
    }

    /// What its threads have as their token.
    pub(crate) fn scope(&self) -> ScopeId {
        self.scope
    }

    /// The limits that the body passed: to be asked before anything is given back.
    fn over_budget(&self) -> Vec<Over> {
        let at_most = match self.budget.reserved {
            Some(_) => sources::read_most_reserved(),
            None => Reading::default(),
        };
        self.ledger.between_events(|| {
            let ended = BodyEnded {
                scope: self.scope,
                at_most,
            };
            recording::body_ended(&ended);
            self.over(&ended)
        })
    }

    /// The limits that the body passed, at its end.
    pub(crate) fn over(&self, ended: &BodyEnded) -> Vec<Over> {
        let mut over = self.budget.passed_by(self.ledger.metered(self.scope));
        over.extend(self.budget.passed_by_reserve(&self.before, &ended.at_most));
        over
    }

    /// Looks until nothing is left, nothing can still be freed, or the time is up.
    pub(crate) fn settle(&self, policy: &Policy, company: Company<'_>) -> Left {
        let limits = Limits {
            tolerance: policy.tolerance,
            reserved_tolerance: policy.reserved_tolerance,
        };
        let start = Instant::now();
        let mut reread = false;
        loop {
            let seen = self.see(company);
            let step = self.ledger.between_events(|| {
                let looked = Looked {
                    scope: self.scope,
                    limits,
                    seen,
                };
                let left = self.look(&looked, &Live);
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
                if pause.is_none() {
                    recording::looked(&looked);
                }
                pause.map_or(Ok(left), Err)
            });
            match step {
                Ok(left) => return left,
                Err(pause) => thread::sleep(pause),
            }
        }
    }

    /// Whether a free is in flight, or a thread that works for this scope lives on.
    fn could_still_free(&self) -> bool {
        self.ledger.releases_in_flight() || threads::live(u64::from(self.scope.0)) != 0
    }

    /// Waits for the devices, empties the caches and reads everything.
    fn see(&self, company: Company<'_>) -> Seen {
        let poisoned = sources::synchronise(self.scope);
        if poisoned.is_empty() {
            sources::empty_caches();
        }
        let after = sources::read();
        let family = family::of(self.scope);
        // Whose segments they are matters only where something is left, or to whom replays it.
        let claims = if self.may_have_left(&family) || recording::is_on() {
            sources::claims()
        } else {
            Claims::default()
        };
        recording::symbols_so_far();
        Seen {
            poisoned,
            after,
            claims,
            family,
            since: self.since,
            alone: company.is_none(),
            met_a_check: company.met_a_check(),
        }
    }

    /// Whether any record can be this check's business.
    fn may_have_left(&self, family: &Family) -> bool {
        self.ledger.live_in(self.scope) != 0
            || !family.is_single()
            || self.ledger.unowned() != self.unowned
    }

    /// Judges what is in the ledger now, and what was seen beside it. Asks nothing else.
    pub(crate) fn look(&self, looked: &Looked, names: &dyn Names) -> Left {
        let Looked { limits, seen, .. } = looked;
        let mut left = Left {
            seen: seen.clone(),
            held: Vec::new(),
            tolerated: Vec::new(),
            owner_unknown: Unknown::default(),
            notes: Vec::new(),
        };
        self.live_records(looked, names, &mut left);
        self.anomalies(seen, &mut left);
        let reserves = judge::risen(&self.before, &seen.after, limits.reserved_tolerance);
        let alone = judge::unexplained(reserves, &mut left.held);
        if seen.met_a_check && !left.held.is_empty() {
            left.notes.push(
                "other checks ran at the same time: the tables count what they took too".to_owned(),
            );
        }
        if self.strangers_may_run(seen) || left.owner_unknown.count != 0 {
            // A reserve has no owner: theirs would be taken for the test's.
            return left;
        }
        left.held.extend(alone);
        left
    }

    /// Whether others have taken, or may have taken, something that need not be this test's.
    fn strangers_may_run(&self, seen: &Seen) -> bool {
        seen.met_a_check || (self.ledger.unowned() != self.unowned && !seen.alone)
    }

    /// What is live and was made inside.
    fn live_records(&self, looked: &Looked, names: &dyn Names, left: &mut Left) {
        let Looked { limits, seen, .. } = looked;
        let (ledger, family) = (self.ledger, &seen.family);
        let mut records = Vec::new();
        if ledger.live_in(self.scope) != 0 || !family.is_single() {
            records.extend(ledger.select(|record| {
                record.sequence >= seen.since && family.has(record.made.caller.scope)
            }));
        }
        if ledger.unowned() != self.unowned {
            let mut strangers = ledger.select(|record| self.is_a_stranger(record, family));
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
        let holdings = ledger.holdings();
        records.retain(|record| {
            seen.claims.owner(record, &holdings).is_none() && !is_the_runtime_s_code(record, names)
        });
        let foreign = |record: &Record| {
            (!family.has(record.made.caller.scope)).then_some(record.made.caller.thread)
        };
        let live = records
            .iter()
            .map(|record| (*record, What::Live(record.made.kind), foreign(record)));
        left.held = judge::group(live);
        left.tolerated = judge::tolerate(limits.tolerance, &mut left.held);
        judge::tell_what_holds(&records, &holdings, &mut left.held);
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

    /// Made inside, by a thread of no open scope.
    fn is_a_stranger(&self, record: &Record, family: &Family) -> bool {
        record.sequence >= self.began && family.is_a_stranger(record, self.ledger)
    }

    /// What happened inside beside the coming and going of records.
    fn anomalies(&self, seen: &Seen, left: &mut Left) {
        let mine = |anomaly: &Anomaly| {
            let scope = anomaly.caller().scope;
            seen.family.has(scope) || (!self.ledger.is_open(scope) && seen.alone)
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

    /// Ends it with what was left.
    pub(crate) fn finish(mut self, end: End, as_expected: bool, left: Left) -> Measured {
        let returned = self.open.take().map(Open::close).unwrap_or_default();
        let finished = Finished {
            scope: self.scope,
            as_expected,
        };
        let ledger = self.ledger;
        ledger.between_events(|| {
            recording::finished(finished);
            Measured {
                end,
                ..self.finished(finished, returned, left)
            }
        })
    }

    /// What the run of a scope that was closed came to.
    pub(crate) fn finished(self, finished: Finished, returned: Returned, left: Left) -> Measured {
        let saw_events = self.ledger.now() != self.began;
        let mut notes = left.notes;
        if returned.count != 0 {
            notes.push(format!(
                "{}, {}, taken before the test and given back inside it: no credit",
                units::quantity(returned.count, "object"),
                units::exact_size(returned.bytes)
            ));
        }
        let poisoned_before = self.poisoned_before.into_iter().next();
        let poisoned_inside = if poisoned_before.is_some() {
            None
        } else {
            left.seen.poisoned.into_iter().next()
        };
        Measured {
            scope: self.scope,
            began: self.began,
            end: End::Passed,
            over: Vec::new(),
            as_expected: finished.as_expected,
            body_time: Duration::ZERO,
            before: self.before,
            after: left.seen.after,
            held: left.held,
            tolerated: left.tolerated,
            notes,
            owner_unknown: left.owner_unknown,
            poisoned_before,
            poisoned_inside,
            saw_events,
        }
    }
}

/// Code that CUDA's own libraries loaded when they first needed it stays for the process.
fn is_the_runtime_s_code(record: &Record, names: &dyn Names) -> bool {
    matches!(record.made.kind, Kind::Module | Kind::Library)
        && names.is_cudas_own(record.made.caller.stack)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::{Open, is_inside_a_check, ledger, threads};

    #[test]
    fn the_token_of_a_check_that_is_over_counts_for_nothing() {
        let open = Open::new();
        let outer = threads::set_token(u64::from(open.scope.0));
        let while_open = is_inside_a_check();
        open.close();
        let afterwards = is_inside_a_check();
        threads::set_token(outer);
        assert_eq!((while_open, afterwards), (true, false));
    }

    #[test]
    fn a_panic_inside_leaves_no_scope_open() {
        let mut scope = None;
        let end = catch_unwind(AssertUnwindSafe(|| {
            let open = Open::new();
            scope = Some(open.scope);
            panic!("on purpose");
        }));
        assert!(end.is_err());
        assert!(!ledger::live().is_open(scope.unwrap()));
    }
}
