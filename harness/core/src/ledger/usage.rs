//! Current and peak usage, to the byte.

use std::iter::Sum;

use crate::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::event::Creation;
use super::name::{Layer, Place};
use crate::units::{exact_size, quantity};

/// A group of resources that is counted together: the bytes of a layer at a place, or the handles
/// that belong to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UsageKey {
    /// The layer, or `None` for handles.
    pub layer: Option<Layer>,
    /// The place.
    pub place: Place,
}

impl UsageKey {
    /// Returns the figure that a resource counts towards.
    pub(super) fn of(made: &Creation) -> Self {
        let layer = (!made.kind.is_handle()).then_some(made.layer);
        let place = made.place;
        Self { layer, place }
    }

    /// Returns how much a resource adds to its figure: 1 if it is a handle, otherwise its bytes.
    pub(super) fn amount(made: &Creation) -> u64 {
        match made.kind.is_handle() {
            true => 1,
            false => made.bytes,
        }
    }
}

/// How much is in use, in bytes or in handles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The current value.
    pub live: u64,
    /// The highest value since the peaks were last restarted.
    pub peak: u64,
}

/// A number of resources and their total size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// The number of resources.
    pub count: u64,
    /// The total size of the resources in bytes.
    pub bytes: u64,
}

impl Amount {
    /// Adds one resource of `bytes`.
    pub fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Returns the sum of this and `other`.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// Returns this minus `other`.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_sub(other.count),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// Returns the larger number and the larger size of this and `other`.
    #[must_use]
    pub fn most(self, other: Self) -> Self {
        Self {
            count: self.count.max(other.count),
            bytes: self.bytes.max(other.bytes),
        }
    }

    /// Returns the number with its noun, and the size: `2 allocations, 1.00 MiB`.
    pub fn text(self, noun: &str) -> String {
        let (count, bytes) = (quantity(self.count, noun), exact_size(self.bytes));
        format!("{count}, {bytes}")
    }

    /// Whether both numbers are 0.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.count == 0 && self.bytes == 0
    }

    /// Whether this is more than `other`, in number or in bytes.
    #[must_use]
    pub const fn exceeds(self, other: Self) -> bool {
        self.count > other.count || self.bytes > other.bytes
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), Self::plus)
    }
}

/// One figure, which is changed by all threads. Its alignment gives it exclusive use of its cache
/// line and of the adjacent line that processors prefetch. The value may wrap, because a recording
/// may contain any size.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Gauge {
    live: AtomicU64,
    peak: AtomicU64,
}

impl Gauge {
    /// Raises the usage, and returns the new value.
    pub(super) fn raise(&self, by: u64) -> u64 {
        let live = self.live.fetch_add(by, Ordering::Relaxed).wrapping_add(by);
        // This is the maximum of all values, because each of them is compared here.
        if live > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(live, Ordering::Relaxed);
        }
        live
    }

    /// Lowers the usage, and returns the new value.
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
