//! What the scopes of a verdict leave: when it was given back after all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustc_hash::FxHashSet;

use super::event::ScopeId;
use super::record::Record;

/// The releases of records of awaited scopes.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    /// Whether there are any: most processes have none, and releases are frequent.
    any: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    scopes: FxHashSet<ScopeId>,
    released: Vec<(Record, Instant)>,
}

impl Awaited {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, notes each release of what was made in these scopes.
    pub(super) fn begin(&self, scopes: &[ScopeId]) {
        self.lock().scopes.extend(scopes);
        self.any.store(true, Ordering::Release);
    }

    /// A record has been given back.
    pub(super) fn returned(&self, record: &Record) {
        if self.any.load(Ordering::Acquire) {
            let mut seen = self.lock();
            if seen.scopes.contains(&record.made.caller.scope) {
                seen.released.push((*record, Instant::now()));
            }
        }
    }

    /// The noted releases of records that `wanted` likes, each with its time, the first one first.
    pub(super) fn released(&self, wanted: impl Fn(&Record) -> bool) -> Vec<(Record, Instant)> {
        let seen = self.lock();
        let released = seen.released.iter().filter(|(record, _)| wanted(record));
        released.copied().collect()
    }
}
