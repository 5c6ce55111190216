//! Records that a verdict has told of: when they were given back after all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustc_hash::FxHashMap;

use super::record::Record;

/// The awaited records, by their moment, each with the time at which it was given back.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    /// Whether there are any: most processes have none, and releases are frequent.
    any: AtomicBool,
    released: Mutex<FxHashMap<u64, Option<Instant>>>,
}

impl Awaited {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<u64, Option<Instant>>> {
        self.released.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the time at which each of these will be given back.
    pub(super) fn begin(&self, records: &[Record]) {
        let awaited = records.iter().map(|record| (record.sequence, None));
        self.lock().extend(awaited);
        self.any.store(true, Ordering::Release);
    }

    /// A record has been given back.
    pub(super) fn returned(&self, record: &Record) {
        if self.any.load(Ordering::Acquire)
            && let Some(at) = self.lock().get_mut(&record.sequence)
        {
            *at = Some(Instant::now());
        }
    }

    /// When an awaited record was given back.
    pub(super) fn at(&self, record: &Record) -> Option<Instant> {
        self.lock().get(&record.sequence).copied().flatten()
    }
}
