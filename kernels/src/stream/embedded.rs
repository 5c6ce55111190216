//! Simulated streams: nothing runs on them, but they can be busy.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::event::{Event, StreamId};
use crate::device_id::DeviceId;
use crate::error::Result;

/// A stream whose work is done immediately, unless it is paused. Clones refer to the same stream.
#[derive(Clone)]
pub struct EmbeddedStream {
    id: StreamId,
    device: DeviceId,
    queue: Arc<SimulatedQueue>,
}

#[derive(Default)]
struct SimulatedQueue {
    progress: Mutex<Progress>,
    resumed: Condvar,
}

#[derive(Default)]
struct Progress {
    held_up: bool,
    /// How many times the stream has been resumed. Resuming it completes the work submitted before.
    resumptions: u64,
}

impl SimulatedQueue {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EmbeddedStream {
    pub(crate) fn new(id: StreamId, device: DeviceId) -> Self {
        Self {
            id,
            device,
            queue: Arc::default(),
        }
    }

    /// The stream's identity.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// The device that the stream belongs to.
    pub(crate) fn device(&self) -> DeviceId {
        self.device
    }

    /// Pauses the stream. No work on it is finished until it is resumed.
    pub fn hold_up(&self) {
        self.queue.lock().held_up = true;
    }

    /// Finishes all work that was submitted to the stream, and resumes it.
    pub fn resume(&self) {
        let mut progress = self.queue.lock();
        progress.held_up = false;
        progress.resumptions += 1;
        self.queue.resumed.notify_all();
    }

    /// Marks the end of the work that has been submitted to the stream so far.
    pub(crate) fn record(&self) -> EmbeddedEvent {
        let progress = self.queue.lock();
        EmbeddedEvent {
            queue: Arc::clone(&self.queue),
            done_at: progress.resumptions + u64::from(progress.held_up),
        }
    }
}

impl fmt::Debug for EmbeddedStream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "EmbeddedStream({})", self.id.0)
    }
}

pub(crate) struct EmbeddedEvent {
    queue: Arc<SimulatedQueue>,
    /// The event is done when the stream has been resumed this many times.
    done_at: u64,
}

impl Event for EmbeddedEvent {
    fn is_done(&self) -> Result<bool> {
        Ok(self.queue.lock().resumptions >= self.done_at)
    }

    fn wait(&self) -> Result<()> {
        let mut progress = self.queue.lock();
        while progress.resumptions < self.done_at {
            let woken = self.queue.resumed.wait(progress);
            progress = woken.unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}

impl fmt::Debug for EmbeddedEvent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "EmbeddedEvent(done at {})", self.done_at)
    }
}
