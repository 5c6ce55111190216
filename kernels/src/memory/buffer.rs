//! Owned bytes on a device.
#![expect(
    unsafe_code,
    reason = "hands out slices of memory that the allocator owns"
)]

use std::ptr;

use super::caching::Allocation;
use super::stream::{Stream, StreamId};
use crate::device::{Backend, Device};
use crate::error::{Error, Result};

/// Bytes on a device, given back to its allocator when dropped.
///
/// Their first content is whatever the memory held before. It keeps its device alive.
#[derive(Debug)]
pub struct Buffer {
    /// None for a buffer of no bytes, and in `drop`.
    allocation: Option<Allocation>,
    bytes: usize,
    device: Device,
}

impl Buffer {
    /// Takes `bytes` from the device's allocator, for work on the device's own stream. No bytes
    /// take no memory: the address is 0.
    ///
    /// # Errors
    ///
    /// When the device has no room for them.
    pub fn new(device: &Device, bytes: usize) -> Result<Self> {
        Self::on(device, bytes, device.stream_id())
    }

    /// Takes `bytes` for work on another stream.
    ///
    /// # Errors
    ///
    /// When the device has no room for them, or the stream is another device's.
    pub fn new_on(device: &Device, bytes: usize, stream: &Stream) -> Result<Self> {
        require_same_device("Buffer::new_on", device, stream)?;
        Self::on(device, bytes, stream.id())
    }

    fn on(device: &Device, bytes: usize, stream: StreamId) -> Result<Self> {
        let allocation = match bytes {
            0 => None,
            bytes => Some(device.allocator().allocate(bytes, stream)?),
        };
        Ok(Self {
            allocation,
            bytes,
            device: device.clone(),
        })
    }

    /// Says that work on `stream` uses the buffer. When the buffer is dropped, its memory is not
    /// handed out again before all work that the stream has by then is done.
    ///
    /// # Errors
    ///
    /// When the stream is another device's.
    pub fn record_stream(&self, stream: &Stream) -> Result<()> {
        require_same_device("Buffer::record_stream", &self.device, stream)?;
        if let Some(allocation) = &self.allocation {
            self.device.allocator().record_stream(allocation, stream);
        }
        Ok(())
    }

    /// Where they are: a device pointer, or on an embedded device an address of this process.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.allocation.as_ref().map_or(0, |it| it.address)
    }

    /// How many were asked for. The block behind them may be larger.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where they came from.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The bytes themselves; none on CUDA, where the host cannot reach them.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        let host = self.host_pointer()?;
        // SAFETY: the range belongs to this buffer alone until it is dropped, is initialised
        // (fresh memory of an embedded device is zeroed), and nobody can write to it while the
        // buffer is borrowed shared.
        Some(unsafe { std::slice::from_raw_parts(host, self.bytes) })
    }

    /// The bytes themselves, to write; none on CUDA.
    #[must_use]
    pub fn as_bytes_mut(&mut self) -> Option<&mut [u8]> {
        let host = self.host_pointer()?;
        // SAFETY: as in `as_bytes`, and the buffer is borrowed alone.
        Some(unsafe { std::slice::from_raw_parts_mut(host, self.bytes) })
    }

    fn host_pointer(&self) -> Option<*mut u8> {
        match (self.device.backend(), &self.allocation) {
            (Backend::Cuda(_), _) => None,
            (Backend::Embedded(_), None) => Some(ptr::NonNull::dangling().as_ptr()),
            (Backend::Embedded(_), Some(allocation)) => {
                let address = usize::try_from(allocation.address).expect("an address of this host");
                Some(ptr::with_exposed_provenance_mut(address))
            }
        }
    }
}

fn require_same_device(operation: &'static str, device: &Device, stream: &Stream) -> Result<()> {
    let same = match (device.backend(), stream) {
        (Backend::Cuda(cuda), Stream::Cuda(stream)) => cuda.context() == stream.context(),
        (Backend::Embedded(embedded), Stream::Embedded(stream)) => embedded.owns(stream),
        _ => false,
    };
    if same {
        return Ok(());
    }
    Err(Error::Argument {
        operation,
        detail: format!("the stream is none of {device}'s"),
    })
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(allocation) = self.allocation.take() {
            self.device.allocator().free(allocation);
        }
    }
}
