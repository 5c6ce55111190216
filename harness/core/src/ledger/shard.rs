//! A shard of the table: the records of some of the keys, with their counts.

mod in_flight;

use std::iter;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::event::{Caller, Creation, Key, Record, ScopeId, Space, StackId};
use super::figures::Figures;
use super::kind::Kind;
use super::timeline::SampleLog;
use super::usage::{Gauge, UsageKey};
use crate::sync::atomic::Ordering;

pub(super) use self::in_flight::{
    EndedFree, FreeEnd, InFlightFree, NO_SHARD, began, shard_of_ticket, ticket,
};

/// The number of shards. It is a power of two and larger than the number of threads that usually
/// allocate at once. Every shard has an entry for each scope, so there must not be too many shards.
pub(super) const SHARDS: usize = 16;

/// The records whose keys are protected by one lock.
#[derive(Debug)]
pub(super) struct Shard {
    /// The entry of each key that has a record, or had one recently.
    index: FxHashMap<Key, Index>,
    pub(super) entries: Vec<Entry>,
    /// The entries that belong to no key.
    unused: Vec<Index>,
    /// How many entries are free.
    free: usize,
    /// The frees in flight. There is at most one per thread, so a search is short.
    pub(super) in_flight: Vec<InFlightFree>,
    /// The number of records by kind.
    pub(super) kinds: [u64; Kind::ALL.len()],
    /// The number of records by open scope.
    pub(super) scopes: ScopeCounts,
    /// How many records were created outside any open scope.
    pub(super) unowned: u64,
    /// For each backtrace, the latest scope that allocated there, and how many times it did so.
    pub(super) allocations: FxHashMap<StackId, (ScopeId, u32)>,
    /// The figures of this shard, in a list, because a program has only a few figures.
    pub(super) usage: Vec<ShardUsage>,
}

/// A position in the entries of a shard.
pub(super) type Index = u32;

/// The state kept under one key. An entry keeps its key for a while, because drivers soon reuse a
/// freed address, and inserting and removing a key costs more than everything else here.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) record: Record,
    /// The position of the record's figure in the shard's usage.
    usage: Index,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Live,
    /// A free in flight has removed the record.
    InFlight,
    Free,
}

/// A shard's part of one figure.
#[derive(Debug)]
pub(super) struct ShardUsage {
    pub(super) key: UsageKey,
    gauge: Arc<Gauge>,
    pub(super) log: SampleLog,
}

/// The minimum number of free entries that a shard keeps.
pub(super) const MIN_FREE: usize = 64;

/// Why a record is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entering {
    /// The record was created.
    New,
    /// The record was restored, because the call that had removed it failed.
    Again,
}

impl Shard {
    pub(super) fn new() -> Self {
        Self {
            index: FxHashMap::default(),
            entries: Vec::new(),
            unused: Vec::new(),
            free: 0,
            in_flight: Vec::new(),
            kinds: [0; Kind::ALL.len()],
            scopes: ScopeCounts::default(),
            unowned: 0,
            allocations: FxHashMap::default(),
            usage: Vec::new(),
        }
    }

    /// Returns the position of the live record under `key`.
    #[inline]
    fn find(&self, key: &Key) -> Option<Index> {
        let index = *self.index.get(key)?;
        (self.entries[index as usize].state == State::Live).then_some(index)
    }

    #[inline]
    pub(super) fn get(&self, key: &Key) -> Option<&Record> {
        self.find(key)
            .map(|index| &self.entries[index as usize].record)
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Record> {
        self.find(key)
            .map(|index| &mut self.entries[index as usize].record)
    }

    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        let live = self
            .entries
            .iter()
            .filter(|entry| entry.state == State::Live);
        live.map(|entry| &entry.record)
    }

    /// Adds a live record, which no figure counts yet. Returns its position, and the live record
    /// that was under its key.
    #[inline]
    pub(super) fn write(
        &mut self,
        figures: &Figures,
        made: &Creation,
        sequence: u64,
    ) -> (Index, Option<Box<Record>>) {
        let usage = self.usage_of(figures, UsageKey::of(made));
        let index = match self.index.get(&made.key).copied() {
            Some(index) if self.entries[index as usize].state == State::Free => {
                self.free -= 1;
                index
            }
            Some(index) => return self.write_again(figures, made, sequence, index),
            None => self.add(figures, made),
        };
        self.fill(index, usage, made, sequence);
        (index, None)
    }

    /// Does the work of [`Self::write`] if the entry at `index` has a record that is live or being
    /// freed.
    #[cold]
    fn write_again(
        &mut self,
        figures: &Figures,
        made: &Creation,
        sequence: u64,
        index: Index,
    ) -> (Index, Option<Box<Record>>) {
        let mut old = None;
        if self.entries[index as usize].state == State::InFlight {
            self.reuse(index);
        } else if let Some(key) = self.free_copy(figures, made.key) {
            return self.write(figures, &Creation { key, ..*made }, sequence);
        } else {
            self.lose(figures, index, sequence);
            old = Some(Box::new(self.entries[index as usize].record));
        }
        let usage = self.usage_of(figures, UsageKey::of(made));
        self.fill(index, usage, made, sequence);
        (index, old)
    }

    #[inline]
    fn fill(&mut self, index: Index, usage: Index, made: &Creation, sequence: u64) {
        let entry = &mut self.entries[index as usize];
        entry.record.sequence = sequence;
        entry.record.made = *made;
        entry.usage = usage;
        entry.state = State::Live;
    }

    /// Returns a key for one more object with the handle of a live object.
    #[cold]
    fn free_copy(&self, figures: &Figures, key: Key) -> Option<Key> {
        figures.has_copies.store(true, Ordering::Relaxed);
        iter::successors(key.next_copy(), |key| key.next_copy()).find(|key| self.get(key).is_none())
    }

    /// Returns the key of the last live object with the handle of `key`. `None` means `key` itself,
    /// because no handle has several live objects or because there is no live object.
    #[inline]
    pub(super) fn last_copy(&self, figures: &Figures, key: &Key) -> Option<Key> {
        let had_copies = figures.has_copies.load(Ordering::Relaxed);
        had_copies.then(|| self.last_of_copies(key)).flatten()
    }

    #[cold]
    fn last_of_copies(&self, key: &Key) -> Option<Key> {
        let copies = iter::successors(Some(*key), |key| key.next_copy());
        let live = copies.take_while(|key| self.get(key).is_some());
        live.last()
    }

    /// Adds an entry for the key of `made`.
    #[cold]
    fn add(&mut self, figures: &Figures, made: &Creation) -> Index {
        if made.key.space == Space::Handle(Kind::Pool) {
            figures.has_pools.store(true, Ordering::Relaxed);
        }
        if self.free > self.index.len() / 2 + MIN_FREE {
            self.forget_free();
        }
        let index = self.unused.pop().unwrap_or_else(|| {
            self.entries.push(Entry {
                record: Record {
                    sequence: 0,
                    made: *made,
                },
                usage: 0,
                state: State::Free,
            });
            self.entries.len() as Index - 1
        });
        self.index.insert(made.key, index);
        index
    }

    /// Removes the keys of free entries.
    #[cold]
    fn forget_free(&mut self) {
        let Self {
            index,
            entries,
            unused,
            ..
        } = self;
        index.retain(|_, index| {
            let is_free = entries[*index as usize].state == State::Free;
            if is_free {
                unused.push(*index);
            }
            !is_free
        });
        self.free = 0;
    }

    /// Releases the entry of a record that no figure counts any more.
    #[inline]
    fn release(&mut self, index: Index) -> &Record {
        let entry = &mut self.entries[index as usize];
        entry.state = State::Free;
        self.free += 1;
        &entry.record
    }

    /// Adds a record to every figure.
    #[inline]
    pub(super) fn gain(&mut self, figures: &Figures, entry: Index, at: u64, entering: Entering) {
        let Entry { record, usage, .. } = &self.entries[entry as usize];
        let made = &record.made;
        self.kinds[made.kind as usize] += 1;
        let is_new = entering == Entering::New;
        match self.scopes.get_mut(made.caller.scope) {
            Some(count) => *count += 1,
            None => self.unowned += u64::from(is_new),
        }
        let usage = &mut self.usage[*usage as usize];
        let amount = UsageKey::amount(made);
        // The meters are locked before the figure changes, so that a log has the same peak as the
        // figure.
        let metered = figures.meters.of(record);
        let live = usage.gauge.raise(amount);
        if figures.is_watched() {
            usage.log.add(at, live.wrapping_sub(amount), live);
        }
        if let Some(mut meters) = metered {
            meters.gained(record, at, is_new);
        }
    }

    /// Removes a record from every figure.
    #[inline]
    fn lose(&mut self, figures: &Figures, entry: Index, at: u64) {
        let Entry { record, usage, .. } = &self.entries[entry as usize];
        let made = &record.made;
        self.kinds[made.kind as usize] -= 1;
        if let Some(count) = self.scopes.get_mut(made.caller.scope) {
            *count -= 1;
        }
        let usage = &mut self.usage[*usage as usize];
        let amount = UsageKey::amount(made);
        let metered = figures.meters.of(record);
        let live = usage.gauge.lower(amount);
        if figures.is_watched() {
            usage.log.add(at, live.wrapping_add(amount), live);
        }
        if let Some(mut meters) = metered {
            meters.lost(record, at);
        }
    }

    /// Returns the position of the figure `key`.
    #[inline]
    fn usage_of(&mut self, figures: &Figures, key: UsageKey) -> Index {
        let known = self.usage.iter().position(|usage| usage.key == key);
        known.unwrap_or_else(|| self.add_usage(figures, key)) as Index
    }

    #[cold]
    fn add_usage(&mut self, figures: &Figures, key: UsageKey) -> usize {
        self.usage.push(ShardUsage {
            key,
            gauge: Arc::clone(figures.gauges().entry(key).or_default()),
            log: SampleLog::default(),
        });
        self.usage.len() - 1
    }

    /// Counts an allocation at the backtrace of `caller`.
    #[inline]
    pub(super) fn allocated(&mut self, caller: Caller) {
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

    pub(super) fn take(&mut self, figures: &Figures, key: &Key) -> Option<Record> {
        let index = self.find(key)?;
        self.lose(figures, index, figures.last());
        Some(*self.release(index))
    }
}

/// A shard's counts of live records by open scope. The count of the last scope that was looked up
/// is stored next to the map, because most events of a program belong to one scope.
#[derive(Debug, Default)]
pub(super) struct ScopeCounts {
    last: Option<(ScopeId, i32)>,
    others: FxHashMap<ScopeId, i32>,
}

impl ScopeCounts {
    /// Begins to count for a scope.
    pub(super) fn open(&mut self, scope: ScopeId) {
        match self.last {
            None => self.last = Some((scope, 0)),
            Some(_) => _ = self.others.insert(scope, 0),
        }
    }

    /// Ends the count for a scope.
    pub(super) fn close(&mut self, scope: ScopeId) {
        if self.last.take_if(|(last, _)| *last == scope).is_none() {
            self.others.remove(&scope);
        }
    }

    /// Returns the count of a scope, or `None` if it is not open.
    pub(super) fn get(&self, scope: ScopeId) -> Option<i32> {
        match self.last {
            Some((last, count)) if last == scope => Some(count),
            _ => self.others.get(&scope).copied(),
        }
    }

    /// Returns the count of a scope, or `None` if it is not open.
    #[inline]
    pub(super) fn get_mut(&mut self, scope: ScopeId) -> Option<&mut i32> {
        if self.last.is_none_or(|(last, _)| last != scope) {
            self.look_up(scope)?;
        }
        self.last.as_mut().map(|(_, count)| count)
    }

    /// Looks up a scope other than the last one, and makes it the last one. Returns `None` if it is
    /// not open.
    #[inline(never)]
    fn look_up(&mut self, scope: ScopeId) -> Option<()> {
        let count = self.others.remove(&scope)?;
        let before = self.last.replace((scope, count));
        self.others.extend(before);
        Some(())
    }
}

#[cfg(test)]
mod consistency {
    use super::{Shard, State};

    impl Shard {
        /// Returns how many keys have an entry.
        pub(in crate::ledger) fn keys(&self) -> usize {
            self.index.len()
        }

        /// Panics unless each entry is either registered under its key or unused.
        pub(in crate::ledger) fn assert_consistent(&self) {
            let indexed = self.index.values();
            let free = indexed.filter(|it| self.entries[**it as usize].state == State::Free);
            assert_eq!(self.free, free.count());
            assert_eq!(self.index.len() + self.unused.len(), self.entries.len());
        }
    }
}
