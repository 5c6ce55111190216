//! A device's allocator, shared by several threads.

use gpu_leak_core::sync::{Lock, LockGuard};

use super::caching::{Allocation, Caching};
use super::pool_id::PoolId;
use super::size::Policy;
use super::source::{SegmentError, SegmentSource};
use crate::error::{Error, OutOfMemory, Result};
use crate::stream::{Stream, StreamId};
use crate::watch::Reporter;

/// The allocator of one device: its state behind a lock, and its reports to the harness.
#[derive(Debug)]
pub(crate) struct Allocator {
    device: String,
    policy: Policy,
    /// None without a cache: the layer below then reports every allocation.
    reporter: Option<Reporter>,
    /// Spins before it sleeps: a hit holds it for less time than a thread takes to go to sleep and
    /// be woken, which `std`'s lock makes each of several threads do.
    caching: Lock<Caching>,
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

    /// The name of its device.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    /// Locks the state for as long as the guard lives. A panic cannot leave it half changed,
    /// because nothing that changes it panics unless it is already wrong.
    #[inline]
    pub(crate) fn lock(&self) -> LockGuard<'_, Caching> {
        self.caching.lock()
    }

    #[inline]
    pub(crate) fn allocate(&self, bytes: usize, stream: StreamId) -> Result<Allocation> {
        let mut caching = self.lock();
        let allocation = caching
            .allocate(bytes, stream)
            .map_err(|error| self.explain(&caching, error, bytes))?;
        self.report(&allocation);
        Ok(allocation)
    }

    /// Like [`Self::allocate`], for the graph that this thread captures.
    ///
    /// # Errors
    ///
    /// Also if emptying the cache would have made room.
    pub(crate) fn allocate_captured(&self, pool: PoolId, bytes: usize) -> Result<Allocation> {
        let mut caching = self.lock();
        let allocation = caching.allocate_captured(pool, bytes).map_err(|error| {
            match self.explain(&caching, error, bytes) {
                Error::OutOfMemory(figures) => Error::Capture {
                    detail: format!(
                        "{figures}. A capture cannot empty the cache: call \
                         `memory::empty_cache` before it"
                    ),
                },
                other => other,
            }
        })?;
        self.report(&allocation);
        Ok(allocation)
    }

    /// Called with the lock held, like every report, so that a reader of the allocator's sum finds
    /// each block either counted and reported, or neither.
    #[inline]
    fn report(&self, allocation: &Allocation) {
        if let Some(reporter) = &self.reporter {
            reporter.allocated(allocation.address, allocation.size);
        }
    }

    #[inline]
    pub(crate) fn free(&self, allocation: Allocation) {
        let mut caching = self.lock();
        if let Some(reporter) = &self.reporter {
            reporter.freed(allocation.address);
        }
        caching.free(allocation);
    }

    pub(crate) fn record_stream(&self, allocation: &Allocation, stream: &Stream) {
        self.lock().record_stream(allocation, stream);
    }

    #[cold]
    fn explain(&self, caching: &Caching, error: SegmentError, requested: usize) -> Error {
        let memory = match (error, caching.source().memory()) {
            (SegmentError::OutOfMemory, Ok(memory)) => memory,
            (SegmentError::OutOfMemory, Err(error)) | (SegmentError::Other(error), _) => {
                return error;
            }
        };
        let bytes = |stat: u64| usize::try_from(stat).expect("bytes in address space");
        let tallies = caching.tallies();
        Error::OutOfMemory(Box::new(OutOfMemory {
            device: self.device.clone(),
            requested,
            allocated: bytes(tallies.allocated_bytes.current()),
            reserved: bytes(tallies.reserved_bytes.current()),
            capacity: memory.total,
            free: memory.free,
            limit: caching.limit(),
        }))
    }
}
