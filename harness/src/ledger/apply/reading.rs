//! What the judgement reads.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::{Ledger, Returned};
use crate::ledger::event::{Key, ScopeId, SourceLoss};
use crate::ledger::meter::Taken;
use crate::ledger::{Anomaly, ContextEntry, Counters, Layer, Mark, Record, Stacks};

impl Ledger {
    /// Begins to count for `scope`; false when its place is taken by a scope that has been open
    /// for thousands of numbers.
    pub fn open_scope(&self, scope: ScopeId) -> bool {
        self.scopes.open(scope)
    }

    /// Ends the count; what is still live keeps the scope's number.
    pub fn close_scope(&self, scope: ScopeId) -> Returned {
        self.scopes.close(scope);
        let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        returned.remove(&scope).unwrap_or_default()
    }

    /// Begins to meter what the open `scope` takes in `layer`, until [`Self::metered`].
    pub fn meter(&self, scope: ScopeId, layer: Layer) {
        self.meters.begin(scope, layer);
    }

    /// What `inner` takes counts for the meter of `outer` as well.
    pub fn nest(&self, inner: ScopeId, outer: ScopeId) {
        self.meters.nest(inner, outer);
    }

    /// Ends the meter of `scope`: what it took, by place. Nothing where it has none.
    pub fn metered(&self, scope: ScopeId) -> Vec<Taken> {
        self.meters.end(scope)
    }

    /// How many records of an open scope are live.
    #[must_use]
    pub fn live_in(&self, scope: ScopeId) -> u32 {
        self.scopes.live(scope).unwrap_or(0)
    }

    /// Whether `scope` is open.
    #[must_use]
    pub fn is_open(&self, scope: ScopeId) -> bool {
        self.scopes.is_open(scope)
    }

    /// Whether a release has begun and not ended.
    #[must_use]
    pub fn releases_in_flight(&self) -> bool {
        !self.flights.is_empty()
    }

    /// How many records were ever made outside every open scope.
    #[must_use]
    pub fn unowned(&self) -> u64 {
        self.unowned.0.load(Ordering::Relaxed)
    }

    /// The moment that the next event will have.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.sequence.0.load(Ordering::Relaxed)
    }

    /// Copies of the live records that `wanted` likes, oldest first. What was opened more than once
    /// has one for each call that did.
    #[must_use]
    pub fn select(&self, mut wanted: impl FnMut(&Record) -> bool) -> Vec<Record> {
        let mut found = self.table.select(&mut wanted);
        let shared = self.shared.lock();
        found.extend(shared.counted.earlier().filter(|record| wanted(record)));
        found.sort_unstable_by_key(|record| record.sequence);
        found
    }

    /// From now on, notes when these records are given back.
    pub fn await_release(&self, records: &[Record]) {
        self.awaited.begin(records);
    }

    /// When an awaited record was given back.
    #[must_use]
    pub fn released_at(&self, record: &Record) -> Option<Instant> {
        self.awaited.at(record)
    }

    /// The live record under `key`.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Record> {
        self.table.get(key)
    }

    /// The number of frees of addresses the ledger did not know.
    #[must_use]
    pub fn unknown_releases(&self) -> u64 {
        self.unknown_releases.load(Ordering::Relaxed)
    }

    /// The figures.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The stacks.
    #[must_use]
    pub fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// The live contexts, oldest first.
    #[must_use]
    pub fn contexts(&self) -> Vec<ContextEntry> {
        self.contexts.all()
    }

    /// The end of the list of anomalies.
    #[must_use]
    pub fn mark(&self) -> Mark {
        self.anomalies.mark()
    }

    /// The anomalies after `mark`.
    #[must_use]
    pub fn anomalies_since(&self, mark: Mark) -> Vec<Anomaly> {
        self.anomalies.since(mark)
    }

    /// Why the live source can no longer be trusted.
    #[must_use]
    pub fn lost(&self) -> Option<SourceLoss> {
        self.lost.get().copied()
    }
}
