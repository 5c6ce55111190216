//! The live records, in shards so that threads seldom meet.

use crate::order;
use crate::sync::{Lock, LockGuard};
use std::collections::hash_map::Entry;
use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::event::Key;
use super::record::Record;

/// A power of two, well above the number of threads that allocate at once.
const SHARDS: usize = 256;

/// A cache line (and its neighbour, which processors fetch with it) for each shard.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Lock<Entries>);

#[derive(Debug, Default)]
struct Entries {
    records: FxHashMap<Key, Record>,
    /// The clock of the last event that went through here, see [`stripes`](super::stripes).
    latest: u64,
}

impl Shard {
    fn lock(&self) -> LockGuard<'_, Entries> {
        self.0.lock()
    }
}

/// Every live record, by its key.
#[derive(Debug)]
pub(super) struct Table {
    shards: Box<[Shard]>,
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    fn shard(&self, key: &Key) -> &Shard {
        &self.shards[Self::number(key)]
    }

    /// The map inside uses the hash's lowest bits and the seven highest. Those in the middle do not
    /// depend on an address' upper bits, and its lower ones are alike in all that are aligned.
    fn number(key: &Key) -> usize {
        (FxBuildHasher.hash_one(key) >> 16) as usize % SHARDS
    }

    /// Enters `record` and returns the one that stood under its key.
    pub(super) fn insert(&self, record: Record) -> Option<Record> {
        let mut shard = self.shard(&record.key()).lock();
        shard.records.insert(record.key(), record)
    }

    /// Enters `record` once `complete` has made it so by the shard's clock, before anyone can meet
    /// it under its key; returns the one that stood there.
    pub(super) fn enter(
        &self,
        record: &mut Record,
        complete: impl FnOnce(&mut u64, &mut Record),
    ) -> Option<Record> {
        let mut shard = self.shard(&record.key()).lock();
        complete(&mut shard.latest, record);
        shard.records.insert(record.key(), *record)
    }

    /// Enters `record` unless its key has another one; whether it did.
    pub(super) fn insert_where_free(&self, record: Record) -> bool {
        let mut shard = self.shard(&record.key()).lock();
        let is_free = !shard.records.contains_key(&record.key());
        if is_free {
            shard.records.insert(record.key(), record);
        }
        is_free
    }

    /// Takes the record under `key` out.
    pub(super) fn take(&self, key: &Key) -> Option<Record> {
        self.shard(key).lock().records.remove(key)
    }

    /// Takes the record under `key` out, and has `then` know of it and of the shard's clock before
    /// anyone can use the key again.
    pub(super) fn leave<T>(
        &self,
        key: &Key,
        then: impl FnOnce(&mut u64, Option<&Record>) -> T,
    ) -> T {
        let mut shard = self.shard(key).lock();
        let Entries { records, latest } = &mut *shard;
        let Entry::Occupied(entry) = records.entry(*key) else {
            return then(latest, None);
        };
        let answer = then(latest, Some(entry.get()));
        entry.remove();
        answer
    }

    /// An event that passes by `key`: `tick` is told its clock.
    pub(super) fn pass(&self, key: &Key, tick: impl FnOnce(&mut u64) -> u64) -> u64 {
        tick(&mut self.shard(key).lock().latest)
    }

    /// Takes the record under `key` out if `wanted` likes it.
    pub(super) fn take_if(&self, key: &Key, wanted: impl Fn(&Record) -> bool) -> Option<Record> {
        let mut shard = self.shard(key).lock();
        let liked = shard.records.get(key).is_some_and(wanted);
        if liked {
            shard.records.remove(key)
        } else {
            None
        }
    }

    /// Changes the record under `key` where it stands, and returns it as it was before.
    pub(super) fn change(&self, key: &Key, change: impl FnOnce(&mut Record)) -> Option<Record> {
        let mut shard = self.shard(key).lock();
        let record = shard.records.get_mut(key)?;
        let before = *record;
        change(record);
        Some(before)
    }

    /// A copy of the record under `key`.
    pub(super) fn get(&self, key: &Key) -> Option<Record> {
        self.shard(key).lock().records.get(key).copied()
    }

    /// Copies of the records that `wanted` likes, oldest first. Shards are visited in turn, so
    /// records that come and go meanwhile may or may not be among them.
    pub(super) fn select(&self, mut wanted: impl FnMut(&Record) -> bool) -> Vec<Record> {
        let mut found: Vec<Record> = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            found.extend(shard.records.values().filter(|record| wanted(record)));
        }
        order::by_key(&mut found, |record| record.sequence);
        found
    }

    /// Takes out the records that `wanted` likes, oldest first.
    pub(super) fn take_all(&self, mut wanted: impl FnMut(&Record) -> bool) -> Vec<Record> {
        let mut taken: Vec<Record> = Vec::new();
        for shard in &self.shards {
            taken.extend(
                shard
                    .lock()
                    .records
                    .extract_if(|_, record| wanted(record))
                    .map(|(_, r)| r),
            );
        }
        order::by_key(&mut taken, |record| record.sequence);
        taken
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
                Table::number(&Key {
                    space: Space::DevicePointer,
                    value: number * alignment,
                })
            };
            let used: BTreeSet<usize> = (0..4 * SHARDS as u64).map(shard).collect();
            assert!(used.len() > SHARDS / 2, "{alignment}: {}", used.len());
        }
    }
}
