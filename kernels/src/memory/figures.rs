//! The figures of a device's allocator, and functions that empty its cache.

use super::summary::Summary;
use crate::allocator::{DeviceMemory, Snapshot, Stats};
use crate::capturing;
use crate::device::Device;
use crate::error::Result;

/// Bytes handed out and not freed.
#[must_use]
pub fn allocated(device: &Device) -> u64 {
    device.allocator().lock().allocated()
}

/// Bytes held from the driver, handed out or cached.
#[must_use]
pub fn reserved(device: &Device) -> u64 {
    device.allocator().lock().reserved()
}

/// The peak of bytes handed out since the device was created, or since the last [`reset_peak`].
#[must_use]
pub fn max_allocated(device: &Device) -> u64 {
    stats(device).allocated_bytes.all.peak
}

/// Every figure of the device's allocator.
#[must_use]
pub fn stats(device: &Device) -> Stats {
    device.allocator().lock().tallies().stats()
}

/// Every figure, as a table that can be printed.
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
    device.allocator().lock().snapshot()
}

/// Returns every cached segment to the driver. Segments stay if they have a block in use or if a
/// [graph](crate::graph) may still write to them. Waits for blocks that were freed while another
/// stream used them.
///
/// # Errors
///
/// Returns an error if the driver refused to free a segment, now or at an earlier free. All other
/// segments are freed nevertheless. Also returns an error, and frees nothing, if this thread is
/// capturing work of the device.
pub fn empty_cache(device: &Device) -> Result<()> {
    capturing::forbid(
        device.id(),
        "emptying the cache",
        "do it before or after the capture",
    )?;
    device.allocator().lock().empty()
}

/// Resets every peak to the current value.
pub fn reset_peak(device: &Device) {
    device.allocator().lock().tallies_mut().reset_peak();
}

/// Resets every total, and the counts of retries and failures, to 0.
pub fn reset_accumulated(device: &Device) {
    device.allocator().lock().tallies_mut().reset_accumulated();
}

/// The memory of the whole device, including the memory of the context and of other processes.
///
/// # Errors
///
/// Returns an error if the driver does not report it.
pub fn device_memory(device: &Device) -> Result<DeviceMemory> {
    device.allocator().lock().source().memory()
}
