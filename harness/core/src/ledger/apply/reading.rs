//! The ledger's readings for the judgement.

use super::Ledger;
use crate::ledger::event::{Key, ScopeId, StackId};
use crate::ledger::meter::Meters;
use crate::ledger::shard::Shard;
use crate::ledger::timeline::curve;
use crate::ledger::usage::Gauge;
use crate::ledger::{Amount, Counted, Curve, Kind, Layer, Place, Record, Stacks, UsageKey, Watch};
use std::sync::Arc;

use crate::recursion_guard::quiet;
use crate::sync::LockGuard;
use crate::sync::atomic::Ordering;

/// The ledger's counts at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// All usage, ordered by key, with the peaks since they were last restarted.
    pub usage: Vec<(UsageKey, Counted)>,
    /// How many records of the scope are live.
    pub live: u32,
    /// How many records have been created outside any open scope so far.
    pub unowned: u64,
}

impl Ledger {
    /// From now on, attributes resources created outside any scope to the watched program.
    pub fn own_all(&self) {
        self.all_its_own.store(true, Ordering::Relaxed);
    }

    /// Whether [`Self::own_all`] has been called.
    pub fn is_all_its_own(&self) -> bool {
        self.all_its_own.load(Ordering::Relaxed)
    }

    /// Opens `scope`, whose ID must be new, and begins to count its resources.
    pub fn open_scope(&self, scope: ScopeId) {
        self.open_scope_since(scope, self.now());
    }

    /// Opens `scope` as [`Self::open_scope`] does, but as a child of the open scope `outer`.
    /// Resources that existed before `outer` count as existing before the child. The child's usage
    /// also counts towards the meter of `outer`.
    pub fn open_part(&self, scope: ScopeId, outer: ScopeId) {
        let since = self.scopes.since(outer).unwrap_or_else(|| self.now());
        self.open_scope_since(scope, since);
        self.meters().nest(scope, outer);
    }

    fn open_scope_since(&self, scope: ScopeId, since: u64) {
        let _quiet = quiet();
        self.scopes.open(scope, since);
        for mut shard in self.table.lock_all() {
            shard.scopes.open(scope);
        }
    }

    /// Closes `scope` and ends its count. Live records keep the scope's ID. Returns the amount of
    /// the resources that existed before the scope and that the scope freed.
    pub fn close_scope(&self, scope: ScopeId) -> Amount {
        let _quiet = quiet();
        for mut shard in self.table.lock_all() {
            shard.scopes.close(scope);
        }
        self.scopes.close(scope)
    }

    /// Returns the meters of this process's allocations.
    pub fn meters(&self) -> &Meters {
        &self.table.figures.meters
    }

    /// Begins a log of every allocation and free in this process. The peaks are computed from this
    /// log, which `Meters::end_log` ends.
    pub fn begin_log(&self, scope: ScopeId) {
        let _quiet = quiet();
        let all = self.table.lock_all();
        let live = all.iter().flat_map(|shard| shard.records());
        self.meters().begin_log(scope, live, self.now());
    }

    /// Whether a free is in flight.
    pub fn frees_in_flight(&self) -> bool {
        let _quiet = quiet();
        self.table.has_frees_in_flight() || self.shared().has_frees_in_flight()
    }

    /// Returns the sequence number of the next event that allocates or frees. All earlier events
    /// have smaller numbers, and no later event has a smaller number.
    pub fn now(&self) -> u64 {
        self.table.figures.last() + 1
    }

    /// Returns how many times `scope` allocated with this backtrace, if `scope` is the latest scope
    /// that did so; otherwise `None`.
    pub fn allocations(&self, stack: StackId, scope: ScopeId) -> Option<u64> {
        let _quiet = quiet();
        let all = self.table.lock_all();
        let counts = || all.iter().filter_map(|it| it.allocations.get(&stack));
        let latest = counts().map(|(scope, _)| *scope).max()?;
        let of_latest = counts().filter(|(scope, _)| *scope == latest);
        (latest == scope).then(|| of_latest.map(|(_, count)| u64::from(*count)).sum())
    }

    /// Returns copies of the live records for which `wanted` returns `true`, oldest first. A
    /// resource that was opened more than once has one record for each call that opened it.
    pub fn select(&self, mut wanted: impl FnMut(&Record) -> bool) -> Vec<Record> {
        self.selected(&mut wanted)
    }

    /// Does the work of [`Self::select`]. This function has no type parameter, so it is compiled
    /// only once. A separate sort for each caller would be 3% of the harness's code.
    fn selected(&self, wanted: &mut dyn FnMut(&Record) -> bool) -> Vec<Record> {
        let _quiet = quiet();
        let shared = self.shared();
        let mut found = self.table.select(&mut *wanted);
        found.extend(
            shared
                .physical
                .holds
                .earlier()
                .filter(|record| wanted(record)),
        );
        found.sort_by_key(|record| record.sequence);
        found
    }

    /// Returns the live record under `key`.
    pub fn get(&self, key: &Key) -> Option<Record> {
        let _quiet = quiet();
        self.table.get(key)
    }

    /// Returns the number of frees of addresses that the ledger did not know.
    pub fn unknown_frees(&self) -> u64 {
        self.unknown_frees.load(Ordering::Relaxed)
    }

    /// Begins to watch how usage changes, and returns the counts of this moment. With
    /// `restarts_peaks`, the peaks are first reset to the current usage. If another watch is
    /// active, the curves are already as coarse as that watch has made them.
    pub fn watch(&self, restarts_peaks: bool) -> (Watch<'_>, Snapshot) {
        let _quiet = quiet();
        let mut all = self.table.lock_all();
        let figures = &self.table.figures;
        if figures.watches.fetch_add(1, Ordering::Relaxed) == 0 {
            let usage = all.iter_mut().flat_map(|shard| &mut shard.usage);
            usage.for_each(|usage| usage.log.clear());
        }
        if restarts_peaks {
            figures.gauges().values().for_each(|it| it.restart_peak());
        }
        (Watch(&self.table), self.counts(&all, ScopeId::NONE))
    }

    /// Returns the curve of each figure that changed with the event `since` or later, with no more
    /// than `most` samples. The watch must have begun before that event.
    pub fn curves(&self, _watch: &Watch<'_>, since: u64, most: usize) -> Vec<Curve> {
        let _quiet = quiet();
        if self.now() <= since {
            return Vec::new();
        }
        let all = self.table.lock_all();
        let gauges = self.table.figures.gauges();
        let curve_of = |(key, gauge): (&UsageKey, &Arc<Gauge>)| {
            let usage = all.iter().flat_map(|shard| &shard.usage);
            let of_key = usage.filter(|usage| usage.key == *key);
            let logs: Vec<_> = of_key.map(|usage| usage.log.clone()).collect();
            curve(*key, &logs, since, most, gauge.read())
        };
        gauges.iter().filter_map(curve_of).collect()
    }

    /// Returns the current counts, including the number of live records of the open scope `scope`.
    pub fn snapshot(&self, scope: ScopeId) -> Snapshot {
        let _quiet = quiet();
        let shared = self.shared();
        let mut snapshot = self.counts(&self.table.lock_all(), scope);
        let earlier = shared.physical.holds.earlier();
        let of_scope = earlier.filter(|record| record.made.caller.scope == scope);
        snapshot.live = snapshot.live.saturating_add(of_scope.count() as u32);
        snapshot
    }

    fn counts(&self, all: &[LockGuard<'_, Shard>], scope: ScopeId) -> Snapshot {
        let (mut live, mut unowned) = (0, 0);
        for shard in all {
            live += i64::from(shard.scopes.get(scope).unwrap_or(0));
            unowned += shard.unowned;
        }
        let gauges = self.table.figures.gauges();
        let usage = gauges.iter().map(|(key, gauge)| (*key, gauge.read()));
        Snapshot {
            usage: usage.filter(|(_, counted)| counted.peak != 0).collect(),
            live: u32::try_from(live.max(0)).unwrap_or(u32::MAX),
            unowned,
        }
    }

    /// Returns the bytes that `layer` has handed out at `place`.
    pub fn bytes(&self, layer: Layer, place: Place) -> Counted {
        let layer = Some(layer);
        self.counted(UsageKey { layer, place })
    }

    /// Returns the handles that belong to `place`.
    pub fn handles(&self, place: Place) -> Counted {
        self.counted(UsageKey { layer: None, place })
    }

    fn counted(&self, key: UsageKey) -> Counted {
        let _quiet = quiet();
        let _all = self.table.lock_all();
        let gauge = self.table.figures.gauges().get(&key).cloned();
        gauge.map_or_else(Counted::default, |gauge| gauge.read())
    }

    /// Returns the number of live records of one kind, at all places.
    pub fn live(&self, kind: Kind) -> u64 {
        let _quiet = quiet();
        let all = self.table.lock_all();
        all.iter().map(|shard| shard.kinds[kind as usize]).sum()
    }

    /// Returns the live pools.
    pub fn pools(&self) -> Vec<Record> {
        let had_pools = self.table.figures.has_pools.load(Ordering::Relaxed);
        // The search is avoided if possible, because it visits every record.
        match had_pools && self.live(Kind::Pool) != 0 {
            true => self.select(|record| record.made.kind == Kind::Pool),
            false => Vec::new(),
        }
    }

    /// Returns the interned backtraces.
    pub fn stacks(&self) -> &Stacks {
        &self.stacks
    }
}
