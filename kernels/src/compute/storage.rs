//! The bytes behind one or more tensors.
#![expect(unsafe_code, reason = "a graph reaches memory that no tensor holds")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::device::Device;
use crate::error::Result;
use crate::memory::{Buffer, PoolId};

/// A buffer that all its views share.
///
/// The lock guards the host's view of the bytes, through which operations of an embedded device
/// read and write. A CUDA device orders its work by its stream and needs only the address.
#[derive(Debug)]
pub(crate) struct Storage {
    buffer: RwLock<Buffer>,
    address: u64,
    bytes: usize,
    device: Device,
    pool: Option<PoolId>,
    version: AtomicU64,
}

impl Storage {
    pub(crate) fn new(device: &Device, bytes: usize) -> Result<Self> {
        Ok(Self::over(Buffer::new(device, bytes)?))
    }

    fn over(buffer: Buffer) -> Self {
        Self {
            address: buffer.address(),
            bytes: buffer.bytes(),
            device: buffer.device().clone(),
            pool: buffer.pool(),
            buffer: RwLock::new(buffer),
            version: AtomicU64::new(0),
        }
    }

    /// Returns a storage over the same bytes that does not own them.
    ///
    /// # Safety
    ///
    /// See [`Buffer::alias`].
    pub(crate) unsafe fn alias(&self) -> Self {
        // SAFETY: the caller upholds the contract of `Buffer::alias`.
        Self::over(unsafe { self.read().alias() })
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// The private pool that the storage comes from, if it was allocated during a capture.
    pub(crate) fn pool(&self) -> Option<PoolId> {
        self.pool
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of times that the contents have been changed in place.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn bump_version(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Locks the bytes for reading. Poisoning is ignored, because a panic in an operation may leave
    /// numbers half written, but never breaks an invariant.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Buffer> {
        self.buffer.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Buffer> {
        self.buffer.write().unwrap_or_else(PoisonError::into_inner)
    }
}
