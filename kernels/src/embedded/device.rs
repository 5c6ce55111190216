//! The simulated device.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::config::EmbeddedConfig;
use super::memory::EmbeddedMemory;
use crate::allocator::SegmentSource;
use crate::device_id::DeviceId;
use crate::error::Result;
use crate::stream::{EmbeddedStream, StreamId};

/// The simulated device. Operations run on the calling thread and are done when they return;
/// its streams only simulate work for the allocator.
#[derive(Debug)]
pub struct Embedded {
    ordinal: usize,
    id: DeviceId,
    memory: Arc<EmbeddedMemory>,
    /// The ID of the stream that was created last. 0 is the default stream.
    streams: AtomicU64,
    /// Locked by the running operation, because operations run one at a time, as on a stream.
    order: Mutex<()>,
}

impl Embedded {
    pub(crate) fn new(config: &EmbeddedConfig, id: DeviceId) -> Result<Self> {
        Ok(Self {
            ordinal: config.ordinal,
            id,
            memory: Arc::new(EmbeddedMemory::new(config)?),
            streams: AtomicU64::new(0),
            order: Mutex::new(()),
        })
    }

    /// The device's ordinal.
    #[must_use]
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// The source of segments for the device's allocator.
    pub(crate) fn segment_source(&self) -> Box<dyn SegmentSource> {
        Box::new(Arc::clone(&self.memory))
    }

    /// Creates a stream whose work can be delayed.
    #[must_use]
    pub fn new_stream(&self) -> EmbeddedStream {
        let number = self.streams.fetch_add(1, Ordering::Relaxed) + 1;
        EmbeddedStream::new(StreamId(number), self.id)
    }

    pub(crate) fn order(&self) -> &Mutex<()> {
        &self.order
    }

    pub(crate) fn owns(&self, stream: &EmbeddedStream) -> bool {
        stream.device() == self.id
    }

    /// Makes the `nth` request for a segment from now on, 1 being the next, fail with an
    /// out-of-memory error.
    ///
    /// # Panics
    ///
    /// Panics if `nth` is 0.
    pub fn fail_allocation(&self, nth: u64) {
        self.memory.lock().faults.allocation.arm(nth);
    }

    /// Makes the `nth` return of a segment from now on, 1 being the next, fail. The segment stays
    /// held, and can be returned later.
    ///
    /// # Panics
    ///
    /// Panics if `nth` is 0.
    pub fn fail_free(&self, nth: u64) {
        self.memory.lock().faults.free.arm(nth);
    }
}
