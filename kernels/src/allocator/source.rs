//! The layer below an allocator: where segments come from and go back to.

use std::fmt;

use crate::error::{Error, Result};
use crate::stream::{Event, Stream};

/// Memory in whole segments, and the order of a device's work.
pub(crate) trait SegmentSource: fmt::Debug + Send + Sync {
    /// Takes a segment and returns its address.
    fn allocate(&self, bytes: usize) -> Result<u64, SegmentError>;

    /// Gives a segment back. After an error it is still held.
    fn free(&self, address: u64, bytes: usize) -> Result<()>;

    /// Records an event in `stream`: the end of the work that it has been given so far.
    fn record(&self, stream: &Stream) -> Result<Box<dyn Event>>;

    /// Waits for all work on the device.
    fn synchronize(&self) -> Result<()>;

    /// The device's memory, total and free.
    fn memory(&self) -> Result<DeviceMemory>;
}

/// Why there is no segment.
#[derive(Debug)]
pub(crate) enum SegmentError {
    /// No room: emptying the cache may help.
    OutOfMemory,
    /// Anything else.
    Other(Error),
}

/// The memory of a whole device, whoever holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Bytes that nobody holds.
    pub free: usize,
    /// All its bytes.
    pub total: usize,
}
