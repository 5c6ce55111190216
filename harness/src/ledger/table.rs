//! The live records, in shards so that threads seldom meet.

use crate::sync::{Mutex, MutexGuard, PoisonError};
use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::event::Key;
use super::record::Record;

/// A power of two, well above the number of threads that allocate at once.
const SHARDS: usize = 64;

/// A cache line (and its neighbour, which processors fetch with it) for each shard.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<FxHashMap<Key, Record>>);

impl Shard {
    /// A thread that panicked while it held the lock changed one entry at most: go on.
    fn lock(&self) -> MutexGuard<'_, FxHashMap<Key, Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        // The map inside uses the hash's top and low bits; take the shard from between them.
        let hash = FxBuildHasher.hash_one(key);
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// Enters `record` and returns the one that stood under its key.
    pub(super) fn insert(&self, record: Record) -> Option<Record> {
        self.shard(&record.key())
            .lock()
            .insert(record.key(), record)
    }

    /// Enters `record` unless its key has another one; whether it did.
    pub(super) fn insert_where_free(&self, record: Record) -> bool {
        let mut shard = self.shard(&record.key()).lock();
        let is_free = !shard.contains_key(&record.key());
        if is_free {
            shard.insert(record.key(), record);
        }
        is_free
    }

    /// Takes the record under `key` out.
    pub(super) fn take(&self, key: &Key) -> Option<Record> {
        self.shard(key).lock().remove(key)
    }

    /// Takes the record under `key` out if `wanted` likes it.
    pub(super) fn take_if(&self, key: &Key, wanted: impl Fn(&Record) -> bool) -> Option<Record> {
        let mut shard = self.shard(key).lock();
        let liked = shard.get(key).is_some_and(wanted);
        if liked { shard.remove(key) } else { None }
    }

    /// Changes the record under `key` where it stands, and returns it as it was before.
    pub(super) fn change(&self, key: &Key, change: impl FnOnce(&mut Record)) -> Option<Record> {
        let mut shard = self.shard(key).lock();
        let record = shard.get_mut(key)?;
        let before = *record;
        change(record);
        Some(before)
    }

    /// A copy of the record under `key`.
    pub(super) fn get(&self, key: &Key) -> Option<Record> {
        self.shard(key).lock().get(key).copied()
    }

    /// Copies of the records that `wanted` likes, oldest first. Shards are visited in turn, so
    /// records that come and go meanwhile may or may not be among them.
    pub(super) fn select(&self, mut wanted: impl FnMut(&Record) -> bool) -> Vec<Record> {
        let mut found: Vec<Record> = Vec::new();
        for shard in &self.shards {
            found.extend(shard.lock().values().filter(|record| wanted(record)));
        }
        found.sort_unstable_by_key(|record| record.sequence);
        found
    }

    /// Takes out the records that `wanted` likes, oldest first.
    pub(super) fn take_all(&self, mut wanted: impl FnMut(&Record) -> bool) -> Vec<Record> {
        let mut taken: Vec<Record> = Vec::new();
        for shard in &self.shards {
            taken.extend(
                shard
                    .lock()
                    .extract_if(|_, record| wanted(record))
                    .map(|(_, r)| r),
            );
        }
        taken.sort_unstable_by_key(|record| record.sequence);
        taken
    }
}
