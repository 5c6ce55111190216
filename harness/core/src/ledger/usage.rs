//! What is in use and was at most, to the byte.

use crate::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::event::Creation;
use super::name::{Layer, Place};

/// What is counted together: the bytes of a layer at a place, or the handles that belong to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UsageKey {
    /// Whose bytes; none for handles.
    pub layer: Option<Layer>,
    /// Where.
    pub place: Place,
}

impl UsageKey {
    /// What a resource is counted as, and how much of it there is.
    pub(super) fn of(made: &Creation) -> (Self, u64) {
        let place = made.place;
        let (layer, amount) = match made.kind.is_handle() {
            true => (None, 1),
            false => (Some(made.layer), made.bytes),
        };
        (Self { layer, place }, amount)
    }
}

/// How much is in use: bytes, or handles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Now.
    pub live: u64,
    /// The most since the peaks were last restarted.
    pub peak: u64,
}

/// One such figure, which all threads change. Alone on its cache line and the neighbour that
/// processors fetch with it. It wraps: a recording may name any size.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Gauge {
    live: AtomicU64,
    peak: AtomicU64,
}

impl Gauge {
    /// So much more is in use. Answers with how much that is.
    pub(super) fn raise(&self, by: u64) -> u64 {
        let live = self.live.fetch_add(by, Ordering::Relaxed).wrapping_add(by);
        // The most of all values that there ever were: each of them comes by here.
        if live > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(live, Ordering::Relaxed);
        }
        live
    }

    /// So much less is in use. Answers with how much that is.
    pub(super) fn lower(&self, by: u64) -> u64 {
        self.live.fetch_sub(by, Ordering::Relaxed).wrapping_sub(by)
    }

    pub(super) fn read(&self) -> Counted {
        Counted {
            live: self.live.load(Ordering::Relaxed),
            peak: self.peak.load(Ordering::Relaxed),
        }
    }

    pub(super) fn restart_peak(&self) {
        self.peak.store(self.read().live, Ordering::Relaxed);
    }
}
