//! The readings of a meter.

use serde::{Deserialize, Serialize};

use crate::ledger::Amount;
use crate::ledger::event::StackId;
use crate::ledger::name::{Layer, Place};

/// The lifetime of an allocation, from its creation to its free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifetime {
    /// Where it was allocated.
    pub stack: StackId,
    /// Its size.
    pub bytes: u64,
    /// The event that allocated it, or 0 if it was live when the log began.
    pub allocated: u64,
    /// The event that freed it, or 0 if it is still live.
    pub freed: u64,
}

/// The usage of one layer at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterReading {
    /// The layer.
    pub layer: Layer,
    /// The place.
    pub place: Place,
    /// The number of allocations.
    pub made: u64,
    /// The bytes of all allocations, whether or not they were freed.
    pub total: u64,
    /// The most bytes that were live at once.
    pub peak: u64,
    /// The event that reached the peak, or 0 if the usage was highest at the beginning.
    pub peak_at: u64,
    /// The contents of the peak, largest first.
    pub at_peak: Vec<SiteUsage>,
    /// All allocations by call site, the most bytes first.
    pub by_bytes: Vec<SiteUsage>,
    /// Allocations that could have shared a buffer.
    pub in_turn: Vec<InTurn>,
    /// The lifetimes, if this is the reading of a log.
    pub lifetimes: Vec<Lifetime>,
    /// How many lifetimes were not kept.
    pub lost: u64,
}

/// The contribution of one call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteUsage {
    /// The stack.
    pub stack: StackId,
    /// The number of allocations.
    pub count: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The events that allocated the first and the last of the records live at the peak, or 0 for
    /// records that were live when the log began.
    #[serde(default)]
    pub allocated: (u64, u64),
}

/// The memory of a graph's nodes at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphUsage {
    /// The place.
    pub place: Place,
    /// The bytes of all addresses that its nodes allocate. The driver gives an allocation the
    /// addresses of an earlier one if it knows that the earlier one has been freed by then. So
    /// memory with separate addresses is held at the same time.
    pub bytes: u64,
    /// The most bytes that are live at once if the nodes run in the order in which they were added.
    pub in_order: u64,
    /// The nodes that allocate, largest first.
    pub sites: Vec<SiteUsage>,
}

/// Allocations of one size by one thread at one stack, each of which was freed before the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InTurn {
    /// The stack.
    pub stack: StackId,
    /// The size of each.
    pub bytes: u64,
    /// The number of allocations.
    pub count: u64,
}

impl SiteUsage {
    pub(in crate::ledger) fn of(stack: StackId, amount: Amount) -> Self {
        Self {
            stack,
            count: amount.count,
            bytes: amount.bytes,
            allocated: (0, 0),
        }
    }
}
