//! What the judgement reads.

use crate::order;
use crate::sync::atomic::Ordering;
use crate::sync::{LockGuard, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::{Freed, HandedOver, Ledger, Returned};
use crate::ledger::event::{Key, ScopeId, StackId};
use crate::ledger::meter::Taken;
use crate::ledger::stripes::Own;
use crate::ledger::{
    Anomaly, ContextEntry, Counters, Layer, Mark, Place, Record, Released, Stacks, Watch,
};
use crate::quiet::quiet;

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
        let since = self.freed().get(&outer).map(|freed| freed.since);
        let is_opened = self.open_scope_since(scope, since.unwrap_or_else(|| self.now()));
        if is_opened {
            self.nest(scope, outer);
        }
        is_opened
    }

    fn open_scope_since(&self, scope: ScopeId, since: u64) -> bool {
        let _quiet = quiet();
        let is_opened = self.stripes.open(scope);
        if is_opened {
            let returned = Returned::default();
            self.freed().insert(scope, Freed { since, returned });
        }
        is_opened
    }

    fn freed(&self) -> MutexGuard<'_, FxHashMap<ScopeId, Freed>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the count; what is still live keeps the scope's number.
    pub fn close_scope(&self, scope: ScopeId) -> Returned {
        let _quiet = quiet();
        self.stripes.close(scope);
        self.handed_over_by_scope().remove(&scope);
        self.primaries.closed(scope);
        let freed = self.freed().remove(&scope);
        freed.map_or_else(Returned::default, |freed| freed.returned)
    }

    /// What the open scopes that `wanted` likes have made and handed over.
    #[must_use]
    pub fn handed_over(&self, wanted: impl Fn(ScopeId) -> bool) -> HandedOver {
        let _quiet = quiet();
        let mut sum = HandedOver::default();
        for (scope, handed_over) in &*self.handed_over_by_scope() {
            if wanted(*scope) {
                sum.count += handed_over.count;
                sum.bytes = sum.bytes.saturating_add(handed_over.bytes);
            }
        }
        sum
    }

    /// The devices whose primary contexts the open scopes that `wanted` likes have retained more
    /// often than released, and how much more often.
    #[must_use]
    pub fn primaries_kept(&self, wanted: impl Fn(ScopeId) -> bool) -> Vec<(Place, u64)> {
        let _quiet = quiet();
        self.primaries.kept(wanted)
    }

    /// Begins to meter what the open `scope` takes in `layer`, until [`Self::metered`].
    pub fn meter(&self, scope: ScopeId, layer: Layer) {
        let _quiet = quiet();
        self.meters.begin(scope, layer);
    }

    /// What `inner` takes counts for the meter of `outer` as well.
    pub fn nest(&self, inner: ScopeId, outer: ScopeId) {
        let _quiet = quiet();
        self.meters.nest(inner, outer);
    }

    /// Ends the meter of `scope`: what it took, by place. Nothing where it has none.
    pub fn metered(&self, scope: ScopeId) -> Vec<Taken> {
        let _quiet = quiet();
        self.meters.end(scope)
    }

    /// How many records of an open scope are live.
    #[must_use]
    pub fn live_in(&self, scope: ScopeId) -> u32 {
        let _quiet = quiet();
        self.stripes.live(scope).unwrap_or(0)
    }

    /// Whether `scope` is open.
    #[must_use]
    pub fn is_open(&self, scope: ScopeId) -> bool {
        let _quiet = quiet();
        self.stripes.is_open(scope)
    }

    /// Whether a release has begun and not ended.
    #[must_use]
    pub fn releases_in_flight(&self) -> bool {
        let _quiet = quiet();
        self.stripes.has_flights()
    }

    /// How many records were ever made outside every open scope.
    #[must_use]
    pub fn unowned(&self) -> u64 {
        let _quiet = quiet();
        self.stripes.each().map(|own| own.unowned).sum()
    }

    /// The moment of now: no event before has one as great, and none from now on a smaller one. The
    /// same until the next event.
    #[must_use]
    pub fn now(&self) -> u64 {
        let _quiet = quiet();
        self.stripes.now()
    }

    /// How many events there have been that take or give back.
    #[must_use]
    pub fn events(&self) -> u64 {
        let _quiet = quiet();
        self.stripes.drawn()
    }

    /// How often `scope` took something at this stack, as far as is known: threads that went on to
    /// take there for another scope know no more.
    #[must_use]
    pub fn taken(&self, stack: StackId, scope: ScopeId) -> Option<u64> {
        let _quiet = quiet();
        let of_scope = |own: LockGuard<'_, Own>| {
            let (last, count) = own.taken.get(stack.0 as usize)?;
            (*last == scope).then_some(u64::from(*count))
        };
        self.stripes
            .each()
            .filter_map(of_scope)
            .reduce(|a, b| a + b)
    }

    /// Copies of the live records that `wanted` likes, oldest first. What was opened more than once
    /// has one for each call that did.
    #[must_use]
    pub fn select(&self, mut wanted: impl FnMut(&Record) -> bool) -> Vec<Record> {
        let _quiet = quiet();
        let mut found = self.table.select(&mut wanted);
        let shared = self.shared.lock();
        found.extend(shared.counted.earlier().filter(|record| wanted(record)));
        order::by_key(&mut found, |record| record.sequence);
        found
    }

    /// From now on, notes when what was made in these scopes is given back.
    pub fn await_release(&self, scopes: &[ScopeId]) {
        let _quiet = quiet();
        self.awaited.begin(scopes);
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
        self.unknown_releases.load(Ordering::Relaxed)
    }

    /// Begins to watch how the figures move.
    #[must_use]
    pub fn watch(&self) -> Watch<'_> {
        let _quiet = quiet();
        Watch::begin(&self.stripes, &self.watching)
    }

    /// The figures.
    #[must_use]
    pub fn counters(&self) -> Counters<'_> {
        Counters {
            stripes: &self.stripes,
            peaks: &self.peaks,
        }
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
