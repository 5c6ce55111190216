//! Simulated streams: nothing runs on them, but they can be busy.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::memory::Memory;
use crate::error::Result;
use crate::memory::{Event, StreamId};

/// A stream whose work is done at once, unless it is held up. Clones are the same stream.
#[derive(Clone)]
pub struct EmbeddedStream {
    id: StreamId,
    memory: Arc<Memory>,
    work: Arc<Work>,
}

#[derive(Default)]
struct Work {
    state: Mutex<State>,
    resumed: Condvar,
}

#[derive(Default)]
struct State {
    held_up: bool,
    /// How often it was resumed: what was submitted before is done.
    resumptions: u64,
}

impl Work {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EmbeddedStream {
    pub(crate) fn new(id: StreamId, memory: Arc<Memory>) -> Self {
        Self {
            id,
            memory,
            work: Arc::default(),
        }
    }

    /// Its identity.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.id
    }

    pub(crate) fn is_of(&self, memory: &Arc<Memory>) -> bool {
        Arc::ptr_eq(&self.memory, memory)
    }

    /// From now on nothing on it gets done.
    pub fn hold_up(&self) {
        self.work.lock().held_up = true;
    }

    /// Everything on it is done, and work goes on.
    pub fn resume(&self) {
        let mut state = self.work.lock();
        state.held_up = false;
        state.resumptions += 1;
        self.work.resumed.notify_all();
    }

    pub(crate) fn mark(&self) -> Mark {
        let state = self.work.lock();
        Mark {
            work: Arc::clone(&self.work),
            passed_at: state.resumptions + u64::from(state.held_up),
        }
    }
}

impl fmt::Debug for EmbeddedStream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "EmbeddedStream({})", self.id.0)
    }
}

/// A mark in a simulated stream.
pub(crate) struct Mark {
    work: Arc<Work>,
    passed_at: u64,
}

impl Event for Mark {
    fn is_done(&self) -> Result<bool> {
        Ok(self.work.lock().resumptions >= self.passed_at)
    }

    fn wait(&self) -> Result<()> {
        let mut state = self.work.lock();
        while state.resumptions < self.passed_at {
            let woken = self.work.resumed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Mark(passed at {})", self.passed_at)
    }
}
