//! Memory of a device: buffers, the allocator they come from, and what it tells of itself.
//!
//! *Allocated* is what the allocator has handed out and not got back; *reserved* is what it holds
//! from the driver, handed out or cached. Both count in bytes and equal PyTorch's
//! `torch.cuda.memory_allocated` and `memory_reserved` for the same requests.

mod allocator;
mod block;
mod buffer;
mod bytes;
mod caching;
mod limit;
mod pending;
mod pool;
mod pools;
mod print;
mod release;
mod size;
mod snapshot;
mod split;
mod stats;
mod storage;
mod stream;
mod summary;
mod tally;

pub(crate) use allocator::Allocator;
pub use block::BlockState;
pub use buffer::Buffer;
pub(crate) use bytes::Bytes;
pub use limit::{set_memory_fraction, set_memory_limit};
pub use pools::PoolId;
pub use print::print_memory;
pub use release::{Held, Released, release};
pub use size::{Policy, PoolKind};
pub use snapshot::{BlockInfo, SegmentInfo, Snapshot};
pub use stats::{Stat, StatByPool, Stats};
pub use storage::DeviceMemory;
pub(crate) use storage::{Event, Storage, StorageError};
pub use stream::{Stream, StreamId};
pub use summary::Summary;

use crate::device::Device;
use crate::error::Result;
use crate::graph;

/// Bytes handed out and not got back, in whole blocks.
#[must_use]
pub fn allocated(device: &Device) -> u64 {
    device
        .allocator()
        .lock()
        .tallies()
        .allocated_bytes
        .current()
}

/// Bytes held from the driver, handed out or cached.
#[must_use]
pub fn reserved(device: &Device) -> u64 {
    device.allocator().lock().tallies().reserved_bytes.current()
}

/// The most bytes handed out at a time since the device was made or [`reset_peak`].
#[must_use]
pub fn max_allocated(device: &Device) -> u64 {
    stats(device).allocated_bytes.all.peak
}

/// The most bytes held from the driver at a time since the device was made or [`reset_peak`].
#[must_use]
pub fn max_reserved(device: &Device) -> u64 {
    stats(device).reserved_bytes.all.peak
}

/// Every figure of the device's allocator.
#[must_use]
pub fn stats(device: &Device) -> Stats {
    device.allocator().lock().tallies().stats()
}

/// Every figure, as a table to print.
#[must_use]
pub fn summary(device: &Device) -> Summary {
    Summary {
        device: device.to_string(),
        stats: stats(device),
    }
}

/// The segments that the allocator holds and the blocks in them.
#[must_use]
pub fn snapshot(device: &Device) -> Snapshot {
    device.allocator().lock().blocks().snapshot()
}

/// Gives every cached segment back to the driver. Segments with a block in use stay, and those that
/// a [graph] may still write to. Waits for blocks that were freed while another stream used them.
///
/// # Errors
///
/// When the driver did not take a segment back, now or at an earlier free; the others have been
/// given back all the same. In a capture of the device, where nothing is given back.
pub fn empty_cache(device: &Device) -> Result<()> {
    graph::forbid(device, "emptying the cache", "do it before or after")?;
    device.allocator().lock().empty()
}

/// Lets every peak begin anew at what there is now.
pub fn reset_peak(device: &Device) {
    device.allocator().lock().tallies_mut().reset_peak();
}

/// Lets every total, and the counts of retries and failures, begin anew at 0.
pub fn reset_accumulated(device: &Device) {
    device.allocator().lock().tallies_mut().reset_accumulated();
}

/// The memory of the whole device, whoever holds it: the context and other processes too.
///
/// # Errors
///
/// When the driver cannot tell.
pub fn device_memory(device: &Device) -> Result<DeviceMemory> {
    device.allocator().lock().storage().memory()
}
