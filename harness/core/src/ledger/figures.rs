//! Data shared by all shards of the table: the sequence numbers of events, and the figures of the
//! whole process.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, locked};

use super::meter::Meters;
use super::usage::{Gauge, UsageKey};

/// The state that all shards share.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// The sequence number of the last event.
    last: Padded<AtomicU64>,
    gauges: Mutex<BTreeMap<UsageKey, Arc<Gauge>>>,
    pub(super) meters: Meters,
    /// The number of active watches.
    pub(super) watches: AtomicUsize,
    /// Whether two live objects ever had the same handle. Only then must a search look for more
    /// than one object.
    pub(super) has_copies: AtomicBool,
    /// Whether there ever was a pool. Each check looks for pools, but most programs create none.
    pub(super) has_pools: AtomicBool,
}

/// A value whose alignment gives it exclusive use of its cache line and of the adjacent line that
/// processors prefetch.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Padded<T>(pub(super) T);

impl Figures {
    /// Returns the sequence number of the last event. Every later event has a greater one.
    pub(super) fn last(&self) -> u64 {
        self.last.0.load(Ordering::Relaxed)
    }

    /// Returns the sequence number of a new event. If the event's key can have a record, this is
    /// called under the lock of that key, so that events on one address are ordered by their
    /// sequence numbers.
    pub(super) fn number(&self) -> u64 {
        self.last.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn gauges(&self) -> MutexGuard<'_, BTreeMap<UsageKey, Arc<Gauge>>> {
        locked(&self.gauges)
    }

    pub(super) fn is_watched(&self) -> bool {
        self.watches.load(Ordering::Relaxed) != 0
    }
}
