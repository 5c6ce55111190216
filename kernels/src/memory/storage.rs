//! The layer below an allocator: where segments come from and go back to.

use std::fmt;

use super::stream::Stream;
use crate::error::{Error, Result};

/// Memory in whole segments, and the order of a device's work.
pub(crate) trait Storage: fmt::Debug + Send + Sync {
    /// Takes a segment and returns its address.
    fn allocate(&self, bytes: usize) -> Result<u64, StorageError>;

    /// Gives a segment back. After an error it is still held.
    fn free(&self, address: u64, bytes: usize) -> Result<()>;

    /// Marks the end of what `stream` has been asked to do so far.
    fn record(&self, stream: &Stream) -> Result<Box<dyn Event>>;

    /// Waits for all work on the device.
    fn synchronize(&self) -> Result<()>;

    /// What the device has and has left.
    fn memory(&self) -> Result<DeviceMemory>;
}

/// A mark in a stream.
pub(crate) trait Event: fmt::Debug + Send {
    /// Whether the work before it is done.
    fn is_done(&self) -> Result<bool>;

    /// Waits for the work before it.
    fn wait(&self) -> Result<()>;
}

/// Why there is no segment.
#[derive(Debug)]
pub(crate) enum StorageError {
    /// No room: less in the cache may help.
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
