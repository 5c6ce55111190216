//! One run of a body between two readings.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gpu_leak_check_threads as threads;

use super::body::{self, End};
use super::company;
use super::sources::{self, Poisoned};
use super::uncovered::take_uncovered;
use crate::case::{Case, ShouldPanic};
use crate::config::Policy;
use crate::judge::{self, Held, Reading, What};
use crate::ledger::{self, Anomaly, Kind, Mark, Record, ScopeId};
use crate::report::allocators::Allocator;
use crate::{report, units};

/// What one run of a body showed.
#[derive(Debug)]
pub(crate) struct Measured {
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
    let body = |scope| body::run(case.name(), scope, case.body);
    measure_with(policy, case.should_panic, body)
}

/// As [`measure`], with a body that is run by `run` for the scope it is told.
pub(crate) fn measure_with(
    policy: &Policy,
    should_panic: Option<ShouldPanic>,
    run: impl FnOnce(ScopeId) -> End,
) -> Measured {
    let stretch = Stretch::begin();
    let start = Instant::now();
    let end = run(stretch.scope);
    let body_time = start.elapsed();
    let left = stretch.settle(policy);
    let as_expected = end.as_expected(should_panic);
    Measured {
        as_expected,
        body_time,
        ..stretch.finish(end, left)
    }
}

/// Whether this thread works for a check that is under way. A thread of a pool may still have the
/// token of one that is over.
pub(crate) fn is_inside_a_check() -> bool {
    let scope = u32::try_from(threads::token()).map(ScopeId);
    scope.is_ok_and(|scope| ledger::live().is_open(scope))
}

/// A scope between its beginning and its end.
struct Stretch {
    scope: ScopeId,
    began: u64,
    unowned: u64,
    mark: Mark,
    before: Reading,
    poisoned_before: Vec<Poisoned>,
}

/// What a reading at the end showed.
struct Left {
    after: Reading,
    held: Vec<Held>,
    tolerated: Vec<Held>,
    owner_unknown: Unknown,
    poisoned: Vec<Poisoned>,
    notes: Vec<String>,
}

impl Stretch {
    fn begin() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let scope = ScopeId(NEXT.fetch_add(1, Ordering::Relaxed));
        let ledger = ledger::live();
        let nested = is_inside_a_check();
        let poisoned_before = sources::synchronise(ScopeId::NONE);
        if !nested {
            sources::empty_caches();
            ledger.counters().restart_peaks();
        }
        ledger.open_scope(scope);
        Self {
            scope,
            before: sources::read(),
            poisoned_before,
            unowned: ledger.unowned(),
            mark: ledger.mark(),
            began: ledger.now(),
        }
    }

    /// Reads until nothing is left, nothing can still be freed, or the time is up.
    fn settle(&self, policy: &Policy) -> Left {
        let start = Instant::now();
        let mut reread = false;
        loop {
            let left = self.look(policy);
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
        ledger::live().releases_in_flight() || threads::live(u64::from(self.scope.0)) != 0
    }

    fn look(&self, policy: &Policy) -> Left {
        let poisoned = sources::synchronise(self.scope);
        if poisoned.is_empty() {
            sources::empty_caches();
        }
        let after = sources::read();
        let mut left = Left {
            held: Vec::new(),
            tolerated: Vec::new(),
            owner_unknown: Unknown::default(),
            poisoned,
            notes: Vec::new(),
            after,
        };
        self.live_records(policy, &mut left);
        self.anomalies(&mut left);
        // An allocator's figures have no owner: what strangers did would be taken for the test's.
        let all_is_the_test_s = !self.strangers_may_run() && left.owner_unknown.count == 0;
        if all_is_the_test_s {
            let unreported = judge::handed_out(&self.before, &left.after, policy.tolerance);
            left.held.extend(unreported);
        }
        let reserves = judge::risen(&self.before, &left.after, policy.reserved_tolerance);
        let alone = judge::unexplained(reserves, &mut left.held);
        if all_is_the_test_s {
            left.held.extend(alone);
        }
        left
    }

    /// Whether threads of no open scope have taken something that need not be this test's.
    fn strangers_may_run(&self) -> bool {
        ledger::live().unowned() != self.unowned && !company::one_test_at_a_time()
    }

    /// What is live and was made inside.
    fn live_records(&self, policy: &Policy, left: &mut Left) {
        let ledger = ledger::live();
        let mut records = Vec::new();
        if ledger.live_in(self.scope) != 0 {
            records.extend(ledger.select(|record| record.made.caller.scope == self.scope));
        }
        if ledger.unowned() != self.unowned {
            let mut strangers = ledger.select(|record| self.is_a_stranger(record));
            if company::one_test_at_a_time() {
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
        records.retain(|record| claims.owner(record).is_none() && !is_the_runtime_s_code(record));
        let foreign = |record: &Record| {
            (record.made.caller.scope != self.scope).then_some(record.made.caller.thread)
        };
        let live = records
            .iter()
            .map(|record| (*record, What::Live(record.made.kind), foreign(record)));
        left.held = judge::group(live);
        left.tolerated = judge::tolerate(policy.tolerance, &mut left.held);
        let tolerated: u64 = left.tolerated.iter().map(|held| held.bytes).sum();
        if tolerated != 0 {
            left.notes.push(format!(
                "{} stayed, within the tolerance of {}",
                units::exact_size(tolerated),
                units::exact_size(policy.tolerance)
            ));
        }
        for held in &mut left.held {
            let taken = ledger.stacks().taken(held.key.stack, self.scope);
            held.taken = taken.unwrap_or(held.count).max(held.count);
        }
    }

    /// Made inside, by a thread of no open scope.
    fn is_a_stranger(&self, record: &Record) -> bool {
        record.sequence >= self.began && !ledger::live().is_open(record.made.caller.scope)
    }

    /// What happened inside beside the coming and going of records.
    fn anomalies(&self, left: &mut Left) {
        let mine = |anomaly: &Anomaly| {
            let scope = anomaly.caller().scope;
            scope == self.scope || (!ledger::live().is_open(scope) && company::one_test_at_a_time())
        };
        let mut anomalies = ledger::live().anomalies_since(self.mark);
        anomalies.retain(mine);
        judge::happened(&anomalies, !left.poisoned.is_empty(), &mut left.held);
        let failed = |anomaly: &&Anomaly| matches!(anomaly, Anomaly::FailedCreation { .. });
        let failed = anomalies.iter().filter(failed).count() as u64;
        if failed != 0 {
            let calls = units::quantity(failed, "creating call");
            left.notes.push(format!("{calls} failed inside the test"));
        }
    }

    fn finish(self, end: End, mut left: Left) -> Measured {
        let ledger = ledger::live();
        let uncovered = take_uncovered(&mut left.held);
        let saw_events = ledger.now() != self.began;
        let returned = ledger.close_scope(self.scope);
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
            left.poisoned.into_iter().next()
        };
        Measured {
            end,
            as_expected: false,
            body_time: Duration::ZERO,
            before: self.before,
            after: left.after,
            held: left.held,
            tolerated: left.tolerated,
            uncovered,
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
