//! The layer below an allocator: where segments come from and return to.

use std::fmt;

use crate::error::{Error, Result};
use crate::stream::{Event, Stream};

/// Provides memory in whole segments, and the events that show how far a device's work has
/// progressed.
pub(crate) trait SegmentSource: fmt::Debug + Send + Sync {
    /// Allocates a segment and returns its address.
    fn allocate(&self, bytes: usize) -> Result<u64, SegmentError>;

    /// Frees a segment. After an error, the segment is still held.
    fn free(&self, address: u64, bytes: usize) -> Result<()>;

    /// Records an event in `stream`: the end of the work that has been submitted to it so far.
    fn record(&self, stream: &Stream) -> Result<Box<dyn Event>>;

    /// Waits for all work on the device.
    fn synchronize(&self) -> Result<()>;

    /// Returns the total and free memory of the device.
    fn memory(&self) -> Result<DeviceMemory>;
}

/// The reason why a segment could not be allocated.
#[derive(Debug)]
pub(crate) enum SegmentError {
    /// There is no room: emptying the cache may help.
    OutOfMemory,
    /// Any other error.
    Other(Error),
}

/// The memory of a whole device, including the memory of other users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// The free bytes.
    pub free: usize,
    /// The total bytes.
    pub total: usize,
}
