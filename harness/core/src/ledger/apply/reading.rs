//! What the judgement reads.

use super::Ledger;
use crate::ledger::event::{Key, ScopeId, StackId};
use crate::ledger::meter::MeterReading;
use crate::ledger::{
    Amount, Anomaly, ContextEntry, Counted, Curve, Kind, Layer, Mark, Place, Record, Released,
    Stacks, UsageKey, Watch,
};
use std::time::Instant;

use crate::quiet::quiet;
use crate::sync::atomic::Ordering;

impl Ledger {
    /// From now on what no scope made is the watched program's own, and nobody else's.
    pub fn own_all(&self) {
        self.all_its_own.store(true, Ordering::Relaxed);
    }

    /// Whether [`Self::own_all`] was called.
    #[must_use]
    pub fn is_all_its_own(&self) -> bool {
        self.all_its_own.load(Ordering::Relaxed)
    }

    /// Begins to count for `scope`; false when that is open already.
    pub fn open_scope(&self, scope: ScopeId) -> bool {
        self.open_scope_since(scope, self.now())
    }

    /// As [`Self::open_scope`], of a part of an open `outer` scope: what was there before is what was
    /// there before the outer one, and what it takes counts for the outer one's meter as well.
    pub fn open_part(&self, scope: ScopeId, outer: ScopeId) -> bool {
        let _quiet = quiet();
        let since = self.scopes.since(outer).unwrap_or_else(|| self.now());
        let is_opened = self.open_scope_since(scope, since);
        if is_opened {
            self.nest(scope, outer);
        }
        is_opened
    }

    fn open_scope_since(&self, scope: ScopeId, since: u64) -> bool {
        let _quiet = quiet();
        let is_opened = self.scopes.open(scope, since);
        if is_opened {
            self.table.open(scope);
        }
        is_opened
    }

    /// Ends the count; what is still live keeps the scope's number. Answers with what the scope
    /// freed that was there before it.
    pub fn close_scope(&self, scope: ScopeId) -> Amount {
        let _quiet = quiet();
        self.table.close(scope);
        self.scopes.close(scope)
    }

    /// What the open scopes that `wanted` likes have made and handed over.
    #[must_use]
    pub fn handed_over(&self, wanted: impl Fn(ScopeId) -> bool) -> Amount {
        let _quiet = quiet();
        self.scopes.all_handed_over(wanted)
    }

    /// The devices whose primary contexts the open scopes that `wanted` likes have retained more
    /// often than released, and how much more often.
    #[must_use]
    pub fn primaries_kept(&self, wanted: impl Fn(ScopeId) -> bool) -> Vec<(Place, u64)> {
        let _quiet = quiet();
        self.scopes.primaries_kept(wanted)
    }

    /// Begins to meter what the open `scope` takes in `layer`, until [`Self::metered`].
    pub fn meter(&self, scope: ScopeId, layer: Layer) {
        let _quiet = quiet();
        self.table.meters.begin(scope, layer);
    }

    /// What `inner` takes counts for the meter of `outer` as well.
    pub fn nest(&self, inner: ScopeId, outer: ScopeId) {
        let _quiet = quiet();
        self.table.meters.nest(inner, outer);
    }

    /// Ends the meter of `scope`: what it took, by place. Nothing where it has none.
    pub fn metered(&self, scope: ScopeId) -> Vec<MeterReading> {
        let _quiet = quiet();
        self.table.meters.end(scope)
    }

    /// How many records of an open scope are live.
    #[must_use]
    pub fn live_in(&self, scope: ScopeId) -> u32 {
        let _quiet = quiet();
        self.table.live_in(scope)
    }

    /// Whether `scope` is open.
    #[must_use]
    pub fn is_open(&self, scope: ScopeId) -> bool {
        let _quiet = quiet();
        self.scopes.has(scope)
    }

    /// Whether a release has begun and not ended.
    #[must_use]
    pub fn releases_in_flight(&self) -> bool {
        let _quiet = quiet();
        self.table.has_frees_in_flight() || self.shared().has_frees_in_flight()
    }

    /// How many records were ever made outside every open scope.
    #[must_use]
    pub fn unowned(&self) -> u64 {
        let _quiet = quiet();
        self.table.unowned()
    }

    /// The number of the next event that allocates or frees: no such event before has one as great,
    /// and none from now on a smaller one.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.table.now()
    }

    /// How often `scope` allocated at this stack; none where a later scope has allocated there.
    #[must_use]
    pub fn allocations(&self, stack: StackId, scope: ScopeId) -> Option<u64> {
        let _quiet = quiet();
        self.table.allocations(stack, scope)
    }

    /// Copies of the live records that `wanted` likes, oldest first. What was opened more than once
    /// has one for each call that did.
    #[must_use]
    pub fn select(&self, mut wanted: impl FnMut(&Record) -> bool) -> Vec<Record> {
        let _quiet = quiet();
        let shared = self.shared();
        let mut found = self.table.select(&mut wanted);
        found.extend(shared.counted.earlier().filter(|record| wanted(record)));
        found.sort_by_key(|record| record.sequence);
        found
    }

    /// From now on, notes when what was made in these scopes is given back: a ledger has no clock,
    /// so `clock` tells the time, for this and all later calls.
    pub fn await_release(&self, scopes: &[ScopeId], clock: fn() -> Instant) {
        let _quiet = quiet();
        self.awaited.begin(scopes, clock);
    }

    /// What was given back of awaited scopes, as far as `wanted` likes it, and when.
    #[must_use]
    pub fn released(&self, wanted: impl Fn(&Record) -> bool) -> Vec<Released> {
        let _quiet = quiet();
        self.awaited.released(wanted)
    }

    /// The live record under `key`.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Record> {
        let _quiet = quiet();
        self.table.get(key)
    }

    /// The number of frees of addresses the ledger did not know.
    #[must_use]
    pub fn unknown_releases(&self) -> u64 {
        self.unknown_frees.load(Ordering::Relaxed)
    }

    /// Begins to watch how usage moves.
    #[must_use]
    pub fn watch(&self) -> Watch<'_> {
        let _quiet = quiet();
        self.table.watch()
    }

    /// How each figure moved that changed with the event `since` or later, at which `watch` stood
    /// already.
    #[must_use]
    pub fn curves(&self, watch: &Watch<'_>, since: u64) -> Vec<Curve> {
        let _quiet = quiet();
        self.table.curves(watch, since)
    }

    /// All usage that there has been since the peaks were last restarted, in order.
    #[must_use]
    pub fn usage(&self) -> Vec<(UsageKey, Counted)> {
        let _quiet = quiet();
        let mut usage = self.table.usage();
        usage.retain(|(_, counted)| counted.peak != 0);
        usage
    }

    /// The bytes that `layer` has handed out at `place`.
    #[must_use]
    pub fn bytes(&self, layer: Layer, place: Place) -> Counted {
        let _quiet = quiet();
        let layer = Some(layer);
        self.table.usage_of(UsageKey { layer, place })
    }

    /// The handles that belong to `place`.
    #[must_use]
    pub fn handles(&self, place: Place) -> Counted {
        let _quiet = quiet();
        self.table.usage_of(UsageKey { layer: None, place })
    }

    /// The number of live records of one kind, everywhere.
    #[must_use]
    pub fn live(&self, kind: Kind) -> u64 {
        let _quiet = quiet();
        self.table.live(kind)
    }

    /// Begins the peaks anew at what is live now.
    pub fn restart_peaks(&self) {
        let _quiet = quiet();
        self.table.restart_peaks();
    }

    /// The stacks.
    #[must_use]
    pub fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// The live contexts, oldest first.
    #[must_use]
    pub fn contexts(&self) -> Vec<ContextEntry> {
        let _quiet = quiet();
        self.contexts.all()
    }

    /// The end of the list of anomalies.
    #[must_use]
    pub fn mark(&self) -> Mark {
        let _quiet = quiet();
        self.anomalies.mark()
    }

    /// The anomalies after `mark`.
    #[must_use]
    pub fn anomalies_since(&self, mark: Mark) -> Vec<Anomaly> {
        let _quiet = quiet();
        self.anomalies.since(mark)
    }
}
