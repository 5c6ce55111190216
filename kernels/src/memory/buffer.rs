//! Owned bytes on a device.
#![expect(
    unsafe_code,
    reason = "hands out slices of memory that the allocator owns"
)]

use std::ptr;

use crate::allocator::PoolId;
use crate::capturing;
use crate::device::{Backend, Device, OwnedBlock};
use crate::error::{Error, Result};
use crate::stream::{Stream, StreamId};

/// The reason why a capture refuses other streams.
const ONE_STREAM: &str = "a graph is replayed only on the device's own stream";

/// Bytes on a device, returned to its allocator when dropped.
///
/// The initial contents are what the memory held before. The buffer keeps its device alive.
#[derive(Debug)]
pub struct Buffer {
    memory: Backing,
    bytes: usize,
    /// The private pool that the bytes come from.
    pool: Option<PoolId>,
}

/// The location of a buffer's bytes.
#[derive(Debug)]
enum Backing {
    /// There are no bytes.
    None(Device),
    Owned(OwnedBlock),
    /// The bytes are at this address and are owned by another buffer.
    Alias(u64, Device),
}

impl Buffer {
    /// Allocates `bytes` from the device's allocator, for work on the device's own stream. An empty
    /// buffer uses no memory: its address is 0.
    ///
    /// # Errors
    ///
    /// Returns an error if the device is out of memory.
    #[inline]
    pub fn new(device: &Device, bytes: usize) -> Result<Self> {
        Self::on(device, bytes, device.stream_id())
    }

    /// Allocates `bytes` for work on another stream.
    ///
    /// # Errors
    ///
    /// Returns an error if the device is out of memory, if the stream belongs to another device, or
    /// if this thread is capturing work of the device.
    pub fn new_on(device: &Device, bytes: usize, stream: &Stream) -> Result<Self> {
        require_same_device("Buffer::new_on", device, stream)?;
        capturing::forbid(device.id(), "memory for another stream", ONE_STREAM)?;
        Self::on(device, bytes, stream.id())
    }

    #[inline]
    fn on(device: &Device, bytes: usize, stream: StreamId) -> Result<Self> {
        let (memory, pool) = match (bytes, capturing::pool_for(device.id())) {
            (0, _) => (Backing::None(device.clone()), None),
            (_, None) => {
                let block = OwnedBlock::new(device, bytes, stream, None)?;
                (Backing::Owned(block), None)
            }
            (_, pool) => {
                let block = capturing::note(OwnedBlock::new(device, bytes, stream, pool))?;
                (Backing::Owned(block), pool)
            }
        };
        Ok(Self {
            memory,
            bytes,
            pool,
        })
    }

    /// A buffer over the same bytes that does not own them.
    ///
    /// # Safety
    ///
    /// The bytes must stay allocated for as long as the alias lives, and must not be read through
    /// one buffer while they are written through the other.
    pub(crate) unsafe fn alias(&self) -> Self {
        Self {
            memory: Backing::Alias(self.address(), self.device().clone()),
            bytes: self.bytes,
            pool: self.pool,
        }
    }

    /// The private pool that the bytes come from, if they were allocated during a capture.
    pub(crate) fn pool(&self) -> Option<PoolId> {
        self.pool
    }

    /// Declares that work on `stream` uses the buffer. When the buffer is dropped, its memory is
    /// not handed out again until all work submitted to the stream by then is done.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream is another device's, or this thread captures on the device.
    pub fn record_stream(&self, stream: &Stream) -> Result<()> {
        require_same_device("Buffer::record_stream", self.device(), stream)?;
        capturing::forbid(self.device().id(), "a use by another stream", ONE_STREAM)?;
        if let Backing::Owned(block) = &self.memory {
            block.record_stream(stream);
        }
        Ok(())
    }

    /// The address of the bytes: a device pointer, or an address in this process if the device is
    /// embedded.
    #[must_use]
    pub fn address(&self) -> u64 {
        match &self.memory {
            Backing::None(_) => 0,
            Backing::Owned(block) => block.address(),
            Backing::Alias(address, _) => *address,
        }
    }

    /// The requested number of bytes. The block behind them may be larger.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The device that holds the bytes.
    #[must_use]
    pub fn device(&self) -> &Device {
        match &self.memory {
            Backing::None(device) | Backing::Alias(_, device) => device,
            Backing::Owned(block) => block.device(),
        }
    }

    /// The bytes themselves. `None` on CUDA, where the host cannot reach them, and for a buffer
    /// allocated during a capture, because a replay may write to it at any time.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        self.pool().is_none().then(|| self.host_bytes()).flatten()
    }

    /// The bytes themselves, for writing; `None` where [`Self::as_bytes`] returns `None`.
    #[must_use]
    pub fn as_bytes_mut(&mut self) -> Option<&mut [u8]> {
        let own = self.pool().is_none();
        own.then(|| self.host_bytes_mut()).flatten()
    }

    /// The bytes for operations. On an embedded device, operations run one at a time.
    pub(crate) fn host_bytes(&self) -> Option<&[u8]> {
        let host = self.host_pointer()?;
        // SAFETY: until the buffer is dropped, the range belongs to it alone, as the creator of an
        // alias has promised. The range is initialised, because fresh memory of an embedded device
        // is zeroed. Nobody can write to it while the buffer is borrowed immutably.
        Some(unsafe { std::slice::from_raw_parts(host, self.bytes) })
    }

    /// The bytes for operations, for writing.
    pub(crate) fn host_bytes_mut(&mut self) -> Option<&mut [u8]> {
        let host = self.host_pointer()?;
        // SAFETY: the conditions hold as in `host_bytes`, and the buffer is borrowed exclusively.
        Some(unsafe { std::slice::from_raw_parts_mut(host, self.bytes) })
    }

    fn host_pointer(&self) -> Option<*mut u8> {
        match (self.device().backend(), self.address()) {
            (Backend::Cuda(_), _) => None,
            (Backend::Embedded(_), 0) => Some(ptr::NonNull::dangling().as_ptr()),
            (Backend::Embedded(_), address) => {
                let address = usize::try_from(address).expect("an address of this host");
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
        detail: format!("the stream belongs to a device other than {device}"),
    })
}
