//! A device's allocator, shared by several threads.

use gpu_leak_core::sync::{Lock, LockGuard};

use super::caching::{Allocation, Caching};
use super::pool_id::PoolId;
use super::size::Policy;
use super::source::{SegmentError, SegmentSource};
use crate::error::{Error, OutOfMemory, Result};
use crate::stream::StreamId;
use crate::watch::Reporter;

/// The allocator of one device: its state behind a lock, and its reports to the harness.
#[derive(Debug)]
pub(crate) struct Allocator {
    device: String,
    policy: Policy,
    /// `None` without a cache: the layer below then reports every allocation.
    reporter: Option<Reporter>,
    /// A lock that spins before it sleeps. A cache hit holds the lock for less time than a thread
    /// takes to sleep and be woken, as would happen with the lock of `std`. The lock spins for a
    /// long time, because a hit changes many cache lines, and moving these lines to another
    /// processor takes longer than the hit.
    caching: Lock<Caching, 256>,
}

impl Allocator {
    pub(crate) fn new(device: String, source: Box<dyn SegmentSource>, policy: Policy) -> Self {
        Self {
            reporter: (policy == Policy::Caching).then(|| Reporter::blocks(&device)),
            device,
            policy,
            caching: Lock::new(Caching::new(source, policy)),
        }
    }

    /// The name of the allocator's device.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    /// Locks the state until the guard is dropped. A panic cannot leave the state half changed,
    /// because code that changes it panics only if the state is already inconsistent.
    #[inline]
    pub(crate) fn lock(&self) -> LockGuard<'_, Caching> {
        self.caching.lock()
    }

    /// Allocates a block; see [`Caching::allocate`]. The lock is held while the block is reported,
    /// as for every free, so that whoever reads the allocator's sum never finds a block counted but
    /// not reported, or reported but not counted.
    ///
    /// # Errors
    ///
    /// Returns an error if there is not enough memory. During a capture, the cache cannot be
    /// emptied to make room.
    #[inline]
    pub(crate) fn allocate(
        &self,
        bytes: usize,
        stream: StreamId,
        private: Option<PoolId>,
    ) -> Result<Allocation> {
        let mut caching = self.lock();
        let allocation = caching
            .allocate(bytes, stream, private)
            .map_err(|error| self.explain(&caching, error, bytes, private.is_some()))?;
        if let Some(reporter) = &self.reporter {
            reporter.allocated(allocation.address, caching.size(&allocation));
        }
        Ok(allocation)
    }

    /// Frees a block. The caller holds the lock.
    #[inline]
    pub(crate) fn free(&self, caching: &mut Caching, allocation: &Allocation) {
        if let Some(reporter) = &self.reporter {
            reporter.freed(allocation.address);
        }
        caching.free(allocation);
    }

    #[cold]
    fn explain(
        &self,
        caching: &Caching,
        error: SegmentError,
        requested: usize,
        captured: bool,
    ) -> Error {
        let memory = match (error, caching.source().memory()) {
            (SegmentError::OutOfMemory, Ok(memory)) => memory,
            (SegmentError::OutOfMemory, Err(error)) | (SegmentError::Other(error), _) => {
                return error;
            }
        };
        let bytes = |stat: u64| usize::try_from(stat).expect("bytes in address space");
        let figures = OutOfMemory {
            device: self.device.clone(),
            requested,
            allocated: bytes(caching.allocated()),
            reserved: bytes(caching.reserved()),
            capacity: memory.total,
            free: memory.free,
            limit: caching.limit(),
        };
        if captured {
            return Error::Capture {
                detail: format!(
                    "{figures}. The cache cannot be emptied during a capture: call \
                     `memory::empty_cache` first"
                ),
            };
        }
        Error::OutOfMemory(Box::new(figures))
    }
}
