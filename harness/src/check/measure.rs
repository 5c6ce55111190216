//! One run of a body between two readings.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gpu_leak_check_threads as threads;

use super::body::End;
use super::company::Company;
use super::family::{self, Family};
use super::remarks;
use super::sources::{self, Poisoned};
use super::uncovered::take_uncovered;
use crate::case::ShouldPanic;
use crate::config::Policy;
use crate::judge::{self, Budget, Held, Over, Reading, Refused, What};
use crate::ledger::{self, Anomaly, Kind, Mark, Record, Returned, ScopeId};
use crate::report;
use crate::report::allocators::Allocator;

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
    /// Allocators that hold what was left and have no probe.
    pub(crate) uncovered: Vec<&'static Allocator>,
    /// Creating calls that failed.
    pub(crate) refused: Vec<Refused>,
    /// The ledger's moment at which the body had ended.
    ended: u64,
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

impl Measured {
    /// How many allocating and freeing calls there were while the body ran.
    pub(crate) fn events(&self) -> u64 {
        self.ended - self.began
    }

    /// Which of them came at this moment, from 1.
    pub(crate) fn ordinal(&self, moment: u64) -> u64 {
        moment.saturating_sub(self.began) + 1
    }
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
    policy: &Policy,
    should_panic: Option<ShouldPanic>,
    company: Company<'_>,
    earlier: &Earlier,
    run: impl FnOnce(ScopeId) -> End,
) -> Measured {
    let mut stretch = Stretch::begin(company, policy.budget);
    stretch.since = earlier.since.unwrap_or(stretch.began);
    for scope in &earlier.scopes {
        family::join(*scope, stretch.scope());
    }
    let start = Instant::now();
    let end = run(stretch.scope());
    let body_time = start.elapsed();
    let ended = ledger::live().now();
    let over = stretch.over_budget();
    let left = stretch.settle(policy, company);
    let as_expected = end.as_expected(should_panic);
    Measured {
        as_expected,
        body_time,
        ended,
        over,
        ..stretch.finish(end, left)
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
            if scope != ScopeId::NONE && ledger::live().open_scope(scope) {
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
        ledger::live().close_scope(self.scope)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.told {
            family::abandoned(self.scope);
            ledger::live().close_scope(self.scope);
        }
    }
}

/// A scope between its beginning and its end.
#[derive(Debug)]
pub(crate) struct Stretch {
    open: Open,
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
    after: Reading,
    held: Vec<Held>,
    tolerated: Vec<Held>,
    owner_unknown: Unknown,
    poisoned: Vec<Poisoned>,
    refused: Vec<Refused>,
    notes: Vec<String>,
}

impl Stretch {
    /// Begins one here and now.
    pub(crate) fn begin(company: Company<'_>, budget: Budget) -> Self {
        let ledger = ledger::live();
        let outer = current();
        let poisoned_before = sources::synchronise(ScopeId::NONE);
        if outer.is_none() {
            sources::empty_caches();
        }
        if outer.is_none() && !company.met_a_check() {
            ledger.counters().restart_peaks();
        }
        let open = Open::new();
        if let Some(outer) = outer {
            ledger.nest(open.scope, outer);
        }
        if let Some(layer) = budget.metered() {
            ledger.meter(open.scope, layer);
        }
        if budget.reserved.is_some() {
            sources::restart_most_reserved();
        }
        let began = ledger.now();
        Self {
            open,
            budget,
            since: began,
            began,
            before: sources::read(),
            poisoned_before,
            unowned: ledger.unowned(),
            mark: ledger.mark(),
        }
    }

    /// What its threads have as their token.
    pub(crate) fn scope(&self) -> ScopeId {
        self.open.scope
    }

    /// The limits that the body passed: to be asked before anything is given back.
    fn over_budget(&self) -> Vec<Over> {
        let mut over = self.budget.passed_by(ledger::live().metered(self.scope()));
        if self.budget.reserved.is_some() {
            let at_most = sources::read_most_reserved();
            over.extend(self.budget.passed_by_reserve(&self.before, &at_most));
        }
        over
    }

    /// Reads until nothing is left, nothing can still be freed, or the time is up.
    pub(crate) fn settle(&self, policy: &Policy, company: Company<'_>) -> Left {
        let start = Instant::now();
        let mut reread = false;
        loop {
            let left = self.look(policy, company);
            if left.held.is_empty() {
                return left;
            }
            if self.could_still_free() && start.elapsed() < policy.settle {
                thread::sleep(Duration::from_millis(1));
            } else if reread {
                return left;
            } else {
                reread = true;
                thread::sleep(Duration::from_millis(10).min(policy.settle));
            }
        }
    }

    /// Whether a free is in flight, or a thread that works for this scope lives on.
    fn could_still_free(&self) -> bool {
        ledger::live().releases_in_flight() || threads::live(u64::from(self.scope().0)) != 0
    }

    fn look(&self, policy: &Policy, company: Company<'_>) -> Left {
        let poisoned = sources::synchronise(self.scope());
        if poisoned.is_empty() {
            sources::empty_caches();
        }
        let after = sources::read();
        let mut left = Left {
            held: Vec::new(),
            tolerated: Vec::new(),
            owner_unknown: Unknown::default(),
            poisoned,
            refused: Vec::new(),
            notes: Vec::new(),
            after,
        };
        self.live_records(policy, company, &mut left);
        self.anomalies(company, &mut left);
        // An allocator's figures have no owner: what strangers did would be taken for the test's.
        let all_is_the_test_s = !self.strangers_may_run(company) && left.owner_unknown.count == 0;
        let unreported = judge::handed_out(&self.before, &left.after, policy.tolerance);
        if all_is_the_test_s {
            left.held.extend(unreported);
        } else {
            left.notes
                .extend(unreported.iter().filter_map(remarks::not_judged));
        }
        let reserves = judge::risen(&self.before, &left.after, policy.reserved_tolerance);
        let alone = judge::unexplained(reserves, &mut left.held);
        if company.met_a_check() && !left.held.is_empty() {
            left.notes.push(
                "other checks ran at the same time: the tables count what they took too".to_owned(),
            );
        }
        if all_is_the_test_s {
            left.held.extend(alone);
        } else {
            left.notes
                .extend(alone.iter().filter_map(remarks::not_judged));
        }
        left
    }

    /// Whether others have taken, or may have taken, something that need not be this test's.
    fn strangers_may_run(&self, company: Company<'_>) -> bool {
        company.met_a_check() || (ledger::live().unowned() != self.unowned && !company.is_none())
    }

    /// What is live and was made inside.
    fn live_records(&self, policy: &Policy, company: Company<'_>, left: &mut Left) {
        let ledger = ledger::live();
        let family = family::of(self.scope());
        let mut records = Vec::new();
        if ledger.live_in(self.scope()) != 0 || !family.is_single() {
            records.extend(ledger.select(|record| {
                record.sequence >= self.since && family.has(record.made.caller.scope)
            }));
        }
        if ledger.unowned() != self.unowned {
            let mut strangers = ledger.select(|record| self.is_a_stranger(record, &family));
            if company.is_none() {
                // A thread whose scope has closed may be at an earlier test's work still.
                let is_of_none = |record: &mut Record| record.made.caller.scope == ScopeId::NONE;
                records.extend(strangers.extract_if(.., is_of_none));
            }
            left.owner_unknown.count = strangers.len() as u64;
            left.owner_unknown.bytes = strangers.iter().map(|record| record.made.bytes).sum();
        }
        if records.is_empty() {
            return;
        }
        let claims = sources::claims();
        let holdings = ledger.holdings();
        records.retain(|record| {
            claims.owner(record, &holdings).is_none() && !is_the_runtime_s_code(record)
        });
        let foreign = |record: &Record| {
            (!family.has(record.made.caller.scope)).then_some(record.made.caller.thread)
        };
        let live = records
            .iter()
            .map(|record| (*record, What::Live(record.made.kind), foreign(record)));
        left.held = judge::group(live);
        left.tolerated = judge::tolerate(policy.tolerance, &mut left.held);
        judge::tell_what_holds(&records, &holdings, &mut left.held);
        let remarks = remarks::tolerance(policy, &left.tolerated, &left.held);
        left.notes.extend(remarks);
        for held in &mut left.held {
            let taken = ledger.stacks().taken(held.key.stack, self.scope());
            held.taken = taken.unwrap_or(held.count).max(held.count);
        }
    }

    /// Made inside, by a thread of no open scope.
    fn is_a_stranger(&self, record: &Record, family: &Family) -> bool {
        record.sequence >= self.since && family.is_a_stranger(record)
    }

    /// What happened inside beside the coming and going of records.
    fn anomalies(&self, company: Company<'_>, left: &mut Left) {
        let family = family::of(self.scope());
        let mine = |anomaly: &Anomaly| {
            let scope = anomaly.caller().scope;
            family.has(scope) || (!ledger::live().is_open(scope) && company.is_none())
        };
        let mut anomalies = ledger::live().anomalies_since(self.mark);
        anomalies.retain(mine);
        judge::happened(&anomalies, !left.poisoned.is_empty(), &mut left.held);
        left.refused = judge::refused(&anomalies);
    }

    /// Ends it with what was left.
    pub(crate) fn finish(self, end: End, mut left: Left) -> Measured {
        let scope = self.scope();
        let ended = ledger::live().now();
        let uncovered = take_uncovered(&mut left.held);
        let saw_events = ended != self.began;
        let returned = self.open.close();
        let mut notes = left.notes;
        notes.extend(remarks::returned(returned.count, returned.bytes));
        let poisoned_before = self.poisoned_before.into_iter().next();
        let poisoned_inside = if poisoned_before.is_some() {
            None
        } else {
            left.poisoned.into_iter().next()
        };
        Measured {
            scope,
            began: self.began,
            end,
            over: Vec::new(),
            as_expected: false,
            body_time: Duration::ZERO,
            before: self.before,
            after: left.after,
            held: left.held,
            tolerated: left.tolerated,
            uncovered,
            refused: left.refused,
            ended,
            notes,
            owner_unknown: left.owner_unknown,
            poisoned_before,
            poisoned_inside,
            saw_events,
        }
    }
}

/// Code that CUDA's own libraries loaded when they first needed it stays for the process.
fn is_the_runtime_s_code(record: &Record) -> bool {
    matches!(record.made.kind, Kind::Module | Kind::Library)
        && report::is_cudas_own(ledger::live().stacks().frames(record.made.caller.stack))
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
