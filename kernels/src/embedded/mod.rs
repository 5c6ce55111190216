//! A simulated GPU in host memory: the same allocator, tensors and errors without a GPU.

mod fault;
mod memory;
mod stream;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) use memory::Memory;
pub use stream::EmbeddedStream;

use crate::error::Result;
use crate::memory::{Policy, StreamId};

/// What an embedded device is like.
#[derive(Clone, Debug)]
pub struct EmbeddedConfig {
    /// Its number: the `0` of `embedded:0`.
    pub ordinal: usize,
    /// Its memory in bytes.
    pub capacity: usize,
    /// What its context holds of that for as long as it lives.
    pub context_bytes: usize,
    /// Whether its allocator keeps what it is given back.
    pub policy: Policy,
}

impl Default for EmbeddedConfig {
    /// Number 0; 16 GiB, of which the context holds 512 MiB; with a cache.
    fn default() -> Self {
        Self {
            ordinal: 0,
            capacity: 16 << 30,
            context_bytes: 512 << 20,
            policy: Policy::Caching,
        }
    }
}

/// The simulated device itself. Operations run on the calling thread and are done when they
/// return; its streams only simulate work for the allocator's sake.
#[derive(Debug)]
pub struct Embedded {
    ordinal: usize,
    memory: Arc<Memory>,
    /// The number of the last stream. 0 is the default stream.
    streams: AtomicU64,
    /// Held by the operation that runs: they take turns, as on a stream.
    order: Mutex<()>,
}

impl Embedded {
    pub(crate) fn new(config: &EmbeddedConfig) -> Result<Self> {
        Ok(Self {
            ordinal: config.ordinal,
            memory: Arc::new(Memory::new(config)?),
            streams: AtomicU64::new(0),
            order: Mutex::new(()),
        })
    }

    /// The device's number.
    #[must_use]
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// A new stream, whose work can be held up.
    #[must_use]
    pub fn new_stream(&self) -> EmbeddedStream {
        let number = self.streams.fetch_add(1, Ordering::Relaxed) + 1;
        EmbeddedStream::new(StreamId(number), Arc::clone(&self.memory))
    }

    /// Taken by each operation while it runs.
    pub(crate) fn order(&self) -> &Mutex<()> {
        &self.order
    }

    pub(crate) fn owns(&self, stream: &EmbeddedStream) -> bool {
        stream.is_of(&self.memory)
    }

    /// Lets the `nth` request for a segment from now on, 1 being the next, fail for want of
    /// memory.
    ///
    /// # Panics
    ///
    /// When `nth` is 0.
    pub fn fail_allocation(&self, nth: u64) {
        self.memory.lock().faults.allocation.arm(nth);
    }

    /// Lets the `nth` return of a segment from now on, 1 being the next, fail. The segment
    /// stays held, and can be returned later.
    ///
    /// # Panics
    ///
    /// When `nth` is 0.
    pub fn fail_free(&self, nth: u64) {
        self.memory.lock().faults.free.arm(nth);
    }
}
