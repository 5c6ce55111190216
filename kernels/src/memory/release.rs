//! Releases memory permanently, and reports memory that could not be released.

use std::fmt;

use super::figures::{empty_cache, snapshot, stats};
use crate::allocator::{BlockState, SegmentInfo};
use crate::bytes::Bytes;
use crate::device::Device;
use crate::error::Result;

/// The result of [`release`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The allocator's usage before the release.
    pub before: Held,
    /// The allocator's usage after the release.
    pub after: Held,
    /// The segments that could not be released. Each is pinned by its blocks in use. The rest of
    /// the segment can serve later requests, but not other processes or libraries.
    pub pinned: Vec<SegmentInfo>,
}

/// An allocator's two main figures, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Bytes handed out.
    pub allocated: u64,
    /// Bytes held from the layer below.
    pub reserved: u64,
}

impl Held {
    /// The current figures.
    #[must_use]
    pub fn now(device: &Device) -> Self {
        let stats = stats(device);
        Self {
            allocated: stats.allocated_bytes.all.current,
            reserved: stats.reserved_bytes.all.current,
        }
    }
}

/// Drops `values` and returns everything cached to the driver.
///
/// The function takes ownership of the values, so that the caller cannot still hold them. If a
/// value shares its memory with a live one, dropping it frees nothing, and the result lists the
/// segments that stay.
///
/// ```
/// use gpu_leak_kernels::memory::{self, Buffer};
/// use gpu_leak_kernels::Device;
///
/// let device = Device::embedded()?;
/// let (model, batch) = (Buffer::new(&device, 80_000)?, Buffer::new(&device, 25_600)?);
/// let released = memory::release(&device, (model, batch))?;
/// assert_eq!(released.after.reserved, 0);
/// # Ok::<(), gpu_leak_kernels::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if the device's work failed, or the driver refused to free a segment.
pub fn release<T>(device: &Device, values: T) -> Result<Released> {
    let before = Held::now(device);
    drop(values);
    device.synchronize()?;
    empty_cache(device)?;
    Ok(Released {
        before,
        after: Held::now(device),
        pinned: snapshot(device).segments,
    })
}

impl fmt::Display for Released {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            before,
            after,
            pinned,
        } = self;
        writeln!(
            out,
            "allocated {} -> {}, reserved {} -> {}",
            Bytes(before.allocated),
            Bytes(after.allocated),
            Bytes(before.reserved),
            Bytes(after.reserved),
        )?;
        for segment in pinned {
            let blocks = segment.blocks.iter();
            let used: Vec<_> = blocks
                .filter(|block| block.state != BlockState::Inactive)
                .collect();
            writeln!(
                out,
                "segment {:#x} of {} stays: {} in use, {} in all",
                segment.address,
                Bytes(segment.total_size),
                match used.len() {
                    1 => "1 block".to_owned(),
                    count => format!("{count} blocks"),
                },
                Bytes(segment.active_size),
            )?;
            for block in used {
                let requested = Bytes(block.requested_size);
                writeln!(out, "  {:#x}  {requested} requested", block.address)?;
            }
        }
        Ok(())
    }
}
