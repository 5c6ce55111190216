//! What all shards of the table share: the numbers of events, and the figures of the whole process.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

use super::meter::Meters;
use super::usage::{Gauge, UsageKey};

/// The shards' common state.
#[derive(Debug)]
pub(super) struct Figures {
    /// The number of the next event.
    next: Padded<AtomicU64>,
    gauges: Mutex<BTreeMap<UsageKey, Arc<Gauge>>>,
    pub(super) meters: Meters,
    /// The number of active watches.
    watches: AtomicUsize,
    /// Whether a live object ever had the handle of another one: only then is there more than one to
    /// be looked for.
    has_copies: AtomicBool,
}

/// Aligned so that it has its cache line, and the neighbouring line that processors prefetch, to
/// itself.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Padded<T>(pub(super) T);

impl Figures {
    pub(super) fn new() -> Self {
        Self {
            next: Padded(AtomicU64::new(1)),
            gauges: Mutex::default(),
            meters: Meters::default(),
            watches: AtomicUsize::new(0),
            has_copies: AtomicBool::new(false),
        }
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

    pub(super) fn gauges(&self) -> MutexGuard<'_, BTreeMap<UsageKey, Arc<Gauge>>> {
        self.gauges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a watch is active.
    pub(super) fn is_watched(&self) -> bool {
        self.watches.load(Ordering::Relaxed) != 0
    }

    /// Begins a watch. Returns whether it is the only one.
    pub(super) fn watch(&self) -> bool {
        self.watches.fetch_add(1, Ordering::Relaxed) == 0
    }

    pub(super) fn end_watch(&self) {
        self.watches.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn has_copies(&self) -> bool {
        self.has_copies.load(Ordering::Relaxed)
    }

    pub(super) fn copied(&self) {
        self.has_copies.store(true, Ordering::Relaxed);
    }
}
