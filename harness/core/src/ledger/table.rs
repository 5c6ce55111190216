//! The live records, in shards by key. A shard's counters are behind the same lock, so that an
//! event takes one lock; a reader of a sum holds all locks, and sees a consistent state.
//!
//! A shard's lock is taken before that of a meter or of the list of gauges, and after all others.

use std::array;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Lock, LockGuard, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::event::{Caller, Creation, Key, Record, ScopeId, StackId, Ticket};
use super::kind::Kind;
use super::meter::Meters;
use super::timeline::{Curve, SampleLog, curve};
use super::usage::{Counted, Gauge, UsageKey};

/// A power of two, larger than the number of threads that allocate at once. Every shard has an
/// entry for each scope.
const SHARDS: usize = 32;

/// All live records, by key.
#[derive(Debug)]
pub(super) struct Table {
    /// The number of the next event.
    next: Padded<AtomicU64>,
    /// Always `SHARDS` of them.
    shards: Box<[Padded<Lock<Shard>>]>,
    gauges: Mutex<BTreeMap<UsageKey, Arc<Gauge>>>,
    pub(super) meters: Meters,
    /// The number of active watches.
    watches: AtomicUsize,
}

/// Aligned so that it has its cache line, and the neighbouring line that processors prefetch, to
/// itself.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

#[derive(Debug)]
struct Shard {
    records: FxHashMap<Key, Record>,
    /// The frees in flight. There is at most one per thread, so a search is short.
    in_flight: Vec<InFlightFree>,
    /// The number of records by kind.
    kinds: [u64; Kind::ALL.len()],
    /// The number of records by open scope.
    scopes: FxHashMap<ScopeId, i32>,
    /// How many records were created outside every open scope.
    unowned: u64,
    /// By backtrace: the latest scope that allocated there, and how often.
    allocations: FxHashMap<StackId, (ScopeId, u32)>,
    /// A list, because a program has only a few of them.
    usage: Vec<ShardUsage>,
}

/// A shard's part of one figure.
#[derive(Debug)]
struct ShardUsage {
    key: UsageKey,
    gauge: Arc<Gauge>,
    log: SampleLog,
}

/// A free in flight, and its state after it has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlightFree {
    ticket: Ticket,
    pub(super) key: Key,
    pub(super) caller: Caller,
    /// The record that it removed from the table; `None` for an unknown address. After the end:
    /// what it freed if it succeeded; otherwise what is still live, or `None` if another call has
    /// freed it.
    pub(super) record: Option<Record>,
    /// The beginning of the last free of the same address that found no record and succeeded while
    /// this one was in flight: it freed what was created before.
    freed_by: u64,
}

/// Why a record is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entering {
    /// It was created.
    New,
    /// A failed call had removed it.
    Again,
}

/// While it is alive, the curves since its beginning can be read.
#[derive(Debug)]
pub struct Watch<'ledger>(&'ledger Table);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the number of the event with which a free began.
pub(super) fn began(ticket: Ticket) -> u64 {
    ticket.0 / SHARDS as u64
}

impl Table {
    pub(super) fn new() -> Self {
        let shard = || Shard {
            records: FxHashMap::default(),
            in_flight: Vec::new(),
            kinds: [0; Kind::ALL.len()],
            scopes: FxHashMap::default(),
            unowned: 0,
            allocations: FxHashMap::default(),
            usage: Vec::new(),
        };
        Self {
            next: Padded(AtomicU64::new(1)),
            // Created one by one: all at once need more space than a small stack has.
            shards: (0..SHARDS).map(|_| Padded(Lock::new(shard()))).collect(),
            gauges: Mutex::default(),
            meters: Meters::default(),
            watches: AtomicUsize::new(0),
        }
    }

    /// The highest bits of a product depend on all bits of a factor, however addresses are aligned.
    fn shard_of(key: &Key) -> usize {
        /// 2⁶⁴ over the golden ratio: Knuth, The Art of Computer Programming, volume 3, 6.4.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        (key.value.wrapping_mul(FACTOR) >> (u64::BITS - SHARDS.ilog2())) as usize
    }

    fn lock(&self, key: &Key) -> LockGuard<'_, Shard> {
        self.shards[Self::shard_of(key)].0.lock()
    }

    /// Locks all shards, for a consistent view.
    fn lock_all(&self) -> [LockGuard<'_, Shard>; SHARDS] {
        array::from_fn(|number| self.shards[number].0.lock())
    }

    /// Returns the number of the next event: all earlier events have smaller numbers, and no later
    /// event has a smaller one.
    pub(super) fn now(&self) -> u64 {
        self.next.0.load(Ordering::Relaxed)
    }

    /// Returns the number of a new event. It is drawn under the lock of its key, if the key can
    /// have a record, so that events on one address are ordered by their numbers.
    pub(super) fn number(&self) -> u64 {
        self.next.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the ticket of a free that began outside the table.
    pub(super) fn ticket(&self) -> Ticket {
        Ticket(self.number() * SHARDS as u64)
    }

    /// Adds a new resource. Returns its sequence number, and the record that was under its key.
    pub(super) fn create(&self, made: &Creation) -> (u64, Option<Record>) {
        let mut shard = self.lock(&made.key);
        let sequence = self.number();
        let record = Record {
            sequence,
            made: *made,
        };
        let old = shard.records.insert(made.key, record);
        if let Some(old) = &old {
            shard.lose(self, old, sequence);
        }
        shard.allocated(made.caller);
        shard.gain(self, &record, sequence, Entering::New);
        (sequence, old)
    }

    /// Adds a record unless there is another one under its key. Returns whether it was added.
    pub(super) fn enter(&self, record: &Record, entering: Entering) -> bool {
        self.lock(&record.key()).enter(self, record, entering)
    }

    /// Counts an allocation whose record another call may have added.
    pub(super) fn allocated(&self, key: &Key, caller: Caller) {
        self.lock(key).allocated(caller);
    }

    /// Removes the record under `key` if `wanted` holds for it.
    pub(super) fn take_if(&self, key: &Key, wanted: impl Fn(&Record) -> bool) -> Option<Record> {
        let mut shard = self.lock(key);
        let record = shard.records.get(key).copied().filter(wanted)?;
        shard.take(self, &record);
        Some(record)
    }

    /// Removes the records for which `wanted` holds, oldest first.
    pub(super) fn take_all(&self, wanted: impl Fn(&Record) -> bool) -> Vec<Record> {
        let mut taken: Vec<Record> = Vec::new();
        for mut shard in self.lock_all() {
            let before = taken.len();
            taken.extend(shard.records.values().filter(|record| wanted(record)));
            for record in &taken[before..] {
                shard.take(self, record);
            }
        }
        taken.sort_by_key(|record| record.sequence);
        taken
    }

    /// Removes the owner of the record under `key`, and returns the record as it was before.
    pub(super) fn disown(&self, key: &Key) -> Option<Record> {
        let mut shard = self.lock(key);
        let record = shard.records.get_mut(key)?;
        let before = *record;
        record.made.caller.scope = ScopeId::NOBODY;
        shard.count_for_scope(&before, -1);
        if let Some(mut meters) = self.meters.of(&before) {
            meters.disowned(&before, self.now() - 1);
        }
        Some(before)
    }

    /// Records which memory an object is bound to. Only objects that are counted can be bound, so
    /// no figure changes.
    pub(super) fn bind(&self, key: &Key, memory: u64, bytes: u64) {
        let mut shard = self.lock(key);
        if let Some(record) = shard.records.get_mut(key)
            && record.made.kind.is_handle()
        {
            (record.made.pool, record.made.bytes) = (memory, bytes);
        }
    }

    /// Begins a free of the resource under `key`.
    pub(super) fn begin_free(&self, key: Key, caller: Caller) -> Ticket {
        let number = Self::shard_of(&key);
        let mut shard = self.shards[number].0.lock();
        let sequence = self.number();
        let ticket = Ticket(sequence * SHARDS as u64 + number as u64);
        let record = &shard.records.remove(&key);
        shard.begin_free(self, ticket, key, caller, record);
        ticket
    }

    /// Begins a free of the resource under `key` by the call with this ticket, if `wanted` holds
    /// for it.
    pub(super) fn begin_free_if(
        &self,
        ticket: Ticket,
        key: Key,
        caller: Caller,
        wanted: impl Fn(&Record) -> bool,
    ) {
        let mut shard = self.lock(&key);
        if let Entry::Occupied(entry) = shard.records.entry(key)
            && wanted(entry.get())
        {
            let record = entry.remove();
            shard.begin_free(self, ticket, key, caller, &Some(record));
        }
    }

    /// Ends the free with this ticket; `None` if it is not in flight here.
    pub(super) fn end_free(&self, ticket: Ticket, succeeded: bool) -> Option<InFlightFree> {
        let mut shard = self.shards[ticket.0 as usize % SHARDS].0.lock();
        shard.end_free(self, succeeded, |free| free.ticket == ticket)
    }

    /// The same for a free that [`Self::begin_free_if`] began.
    pub(super) fn end_free_of(
        &self,
        ticket: Ticket,
        key: &Key,
        succeeded: bool,
    ) -> Option<InFlightFree> {
        let mut shard = self.lock(key);
        shard.end_free(self, succeeded, |free| {
            free.ticket == ticket && free.key == *key
        })
    }

    /// Whether a free is in flight.
    pub(super) fn has_frees_in_flight(&self) -> bool {
        self.lock_all().iter().any(|it| !it.in_flight.is_empty())
    }

    /// Returns a copy of the record under `key`.
    pub(super) fn get(&self, key: &Key) -> Option<Record> {
        self.lock(key).records.get(key).copied()
    }

    /// Returns copies of the records for which `wanted` holds, in no particular order.
    pub(super) fn select(&self, mut wanted: impl FnMut(&Record) -> bool) -> Vec<Record> {
        let mut found: Vec<Record> = Vec::new();
        for shard in &self.lock_all() {
            found.extend(shard.records.values().filter(|record| wanted(record)));
        }
        found
    }

    /// Begins to count for `scope`.
    pub(super) fn open(&self, scope: ScopeId) {
        for mut shard in self.lock_all() {
            shard.scopes.insert(scope, 0);
        }
    }

    /// Ends the count.
    pub(super) fn close(&self, scope: ScopeId) {
        for mut shard in self.lock_all() {
            shard.scopes.remove(&scope);
        }
    }

    /// Returns how many records of an open scope are live.
    pub(super) fn live_in(&self, scope: ScopeId) -> u32 {
        let all = self.lock_all();
        let counts = all.iter().filter_map(|shard| shard.scopes.get(&scope));
        let live: i64 = counts.map(|count| i64::from(*count)).sum();
        u32::try_from(live.max(0)).unwrap_or(u32::MAX)
    }

    /// Returns how many records of one kind are live.
    pub(super) fn live(&self, kind: Kind) -> u64 {
        let all = self.lock_all();
        all.iter().map(|shard| shard.kinds[kind as usize]).sum()
    }

    /// Returns how many records have been created outside every open scope.
    pub(super) fn unowned(&self) -> u64 {
        self.lock_all().iter().map(|shard| shard.unowned).sum()
    }

    /// Returns how often `scope` allocated at this backtrace; `None` if a later scope has allocated
    /// there.
    pub(super) fn allocations(&self, stack: StackId, scope: ScopeId) -> Option<u64> {
        let all = self.lock_all();
        let counts = || all.iter().filter_map(|it| it.allocations.get(&stack));
        let latest = counts().map(|(scope, _)| *scope).max()?;
        let of_latest = counts().filter(|(scope, _)| *scope == latest);
        (latest == scope).then(|| of_latest.map(|(_, count)| u64::from(*count)).sum())
    }

    fn gauges(&self) -> MutexGuard<'_, BTreeMap<UsageKey, Arc<Gauge>>> {
        self.gauges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the usage that is counted under `key`.
    pub(super) fn usage_of(&self, key: UsageKey) -> Counted {
        let _all = self.lock_all();
        let gauge = self.gauges().get(&key).cloned();
        gauge.map_or_else(Counted::default, |gauge| gauge.read())
    }

    /// Returns every figure that was ever raised, in order.
    pub(super) fn usage(&self) -> Vec<(UsageKey, Counted)> {
        let _all = self.lock_all();
        let gauges = self.gauges();
        gauges.iter().map(|(key, it)| (*key, it.read())).collect()
    }

    /// Restarts the peaks at what is live now.
    pub(super) fn restart_peaks(&self) {
        let _all = self.lock_all();
        self.gauges().values().for_each(|it| it.restart_peak());
    }

    /// Begins to log how usage changes. If another watch is active, the curves are as coarse as it
    /// has made them.
    pub(super) fn watch(&self) -> Watch<'_> {
        let mut all = self.lock_all();
        if self.watches.fetch_add(1, Ordering::Relaxed) == 0 {
            let usage = all.iter_mut().flat_map(|shard| &mut shard.usage);
            usage.for_each(|usage| usage.log.clear());
        }
        Watch(self)
    }

    /// Begins a log of every allocation and free for `scope`, with what is live now.
    pub(super) fn begin_log(&self, scope: ScopeId) {
        let all = self.lock_all();
        let live = all.iter().flat_map(|shard| shard.records.values());
        self.meters.begin_log(scope, live);
    }

    /// Returns the curve of each figure that changed with the event `since` or later.
    pub(super) fn curves(&self, _watch: &Watch<'_>, since: u64) -> Vec<Curve> {
        let all = self.lock_all();
        let gauges = self.gauges();
        let curve_of = |(key, gauge): (&UsageKey, &Arc<Gauge>)| {
            let usage = all.iter().flat_map(|shard| &shard.usage);
            let of_key = usage.filter(|usage| usage.key == *key);
            let logs: Vec<_> = of_key.map(|usage| usage.log.clone()).collect();
            curve(*key, &logs, since, gauge.read().live)
        };
        gauges.iter().filter_map(curve_of).collect()
    }
}

impl Shard {
    /// Adds a record to every figure.
    fn gain(&mut self, table: &Table, record: &Record, at: u64, entering: Entering) {
        let made = &record.made;
        self.kinds[made.kind as usize] += 1;
        let is_owned = self.count_for_scope(record, 1);
        let (key, amount) = UsageKey::of(made);
        let is_new = entering == Entering::New;
        self.unowned += u64::from(is_new && !is_owned);
        let usage = self.usage(table, key);
        // Locked before the figure changes, so that a log has the peak of that figure.
        let metered = table.meters.of(record);
        let live = usage.gauge.raise(amount);
        if table.watches.load(Ordering::Relaxed) != 0 {
            usage.log.add(at, live.wrapping_sub(amount), live);
        }
        if let Some(mut meters) = metered {
            meters.gained(record, at, is_new);
        }
    }

    /// Removes a record from every figure.
    fn lose(&mut self, table: &Table, record: &Record, at: u64) {
        self.kinds[record.made.kind as usize] -= 1;
        self.count_for_scope(record, -1);
        let (key, amount) = UsageKey::of(&record.made);
        let usage = self.usage(table, key);
        let metered = table.meters.of(record);
        let live = usage.gauge.lower(amount);
        if table.watches.load(Ordering::Relaxed) != 0 {
            usage.log.add(at, live.wrapping_add(amount), live);
        }
        if let Some(mut meters) = metered {
            meters.lost(record, at);
        }
    }

    /// Counts a record for its scope. Returns whether that scope is open.
    fn count_for_scope(&mut self, record: &Record, by: i32) -> bool {
        let count = self.scopes.get_mut(&record.made.caller.scope);
        count.map(|count| *count += by).is_some()
    }

    fn usage(&mut self, table: &Table, key: UsageKey) -> &mut ShardUsage {
        let at = self.usage.iter().position(|usage| usage.key == key);
        let at = at.unwrap_or_else(|| {
            self.usage.push(ShardUsage {
                key,
                gauge: Arc::clone(table.gauges().entry(key).or_default()),
                log: SampleLog::default(),
            });
            self.usage.len() - 1
        });
        &mut self.usage[at]
    }

    /// Counts an allocation at the backtrace of `caller`.
    fn allocated(&mut self, caller: Caller) {
        if caller.stack == StackId::default() {
            return;
        }
        let (scope, count) = self.allocations.entry(caller.stack).or_default();
        if *scope < caller.scope {
            (*scope, *count) = (caller.scope, 0);
        }
        if *scope == caller.scope {
            *count = count.saturating_add(1);
        }
    }

    fn enter(&mut self, table: &Table, record: &Record, entering: Entering) -> bool {
        let Entry::Vacant(entry) = self.records.entry(record.key()) else {
            return false;
        };
        entry.insert(*record);
        self.gain(table, record, table.now() - 1, entering);
        true
    }

    fn take(&mut self, table: &Table, record: &Record) {
        self.records.remove(&record.key());
        self.lose(table, record, table.now() - 1);
    }

    fn begin_free(
        &mut self,
        table: &Table,
        ticket: Ticket,
        key: Key,
        caller: Caller,
        record: &Option<Record>,
    ) {
        if let Some(record) = record {
            self.lose(table, record, began(ticket));
        }
        self.in_flight.push(InFlightFree {
            ticket,
            key,
            caller,
            record: *record,
            freed_by: 0,
        });
    }

    fn end_free(
        &mut self,
        table: &Table,
        succeeded: bool,
        is_it: impl Fn(&InFlightFree) -> bool,
    ) -> Option<InFlightFree> {
        let index = self.in_flight.iter().position(is_it)?;
        let mut free = self.in_flight.swap_remove(index);
        match &free.record {
            Some(record) if !succeeded => {
                // The driver still owns it, so no other allocation can have its address, unless
                // another free of it succeeded meanwhile.
                let is_there = record.sequence >= free.freed_by;
                if !is_there || !self.enter(table, record, Entering::Again) {
                    free.record = None;
                }
            }
            None if succeeded => self.freed_unknown(table, &free),
            _ => {}
        }
        Some(free)
    }

    /// Handles a successful free of an address that was unknown when it began. Two threads may free
    /// an address at once: the one that removed the record fails, and the other finds nothing and
    /// succeeds. Then the record is gone, whichever of them ends first.
    fn freed_unknown(&mut self, table: &Table, free: &InFlightFree) {
        let began = began(free.ticket);
        let stale = self.records.get(&free.key).copied();
        if let Some(stale) = stale.filter(|record| record.sequence < began) {
            return self.take(table, &stale);
        }
        for other in &mut self.in_flight {
            if other.key == free.key {
                other.freed_by = other.freed_by.max(began);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{SHARDS, Table};
    use crate::ledger::event::{Key, Space};

    #[test]
    fn addresses_spread_over_the_shards_however_they_are_aligned() {
        for alignment in [1, 16, 512, 64 << 10, 2 << 20, 1 << 30] {
            let shard = |number| {
                Table::shard_of(&Key {
                    space: Space::DevicePointer,
                    value: number * alignment,
                })
            };
            let used: BTreeSet<usize> = (0..4 * SHARDS as u64).map(shard).collect();
            assert!(used.len() > SHARDS / 2, "{alignment}: {}", used.len());
        }
    }
}
