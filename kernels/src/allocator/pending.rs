//! Blocks that were freed while other streams still use them.

use std::collections::VecDeque;

use super::block::BlockId;
use crate::error::Result;
use crate::stream::{Event, StreamId};

/// Events in streams and the blocks that wait for them. A stream reaches its events in order.
#[derive(Debug, Default)]
pub(crate) struct PendingFrees {
    queues: Vec<(StreamId, VecDeque<PendingFree>)>,
}

#[derive(Debug)]
struct PendingFree {
    event: Box<dyn Event>,
    block: BlockId,
}

impl PendingFrees {
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    pub(crate) fn push(&mut self, stream: StreamId, event: Box<dyn Event>, block: BlockId) {
        let free = PendingFree { event, block };
        match self.queues.iter_mut().find(|(id, _)| *id == stream) {
            Some((_, queue)) => queue.push_back(free),
            None => self.queues.push((stream, VecDeque::from([free]))),
        }
    }

    /// Finds an event that has been reached, removes it, and returns its block, which may still
    /// wait for other events. Returns `None` if no stream has reached its next event.
    pub(crate) fn next_done(&mut self) -> Result<Option<BlockId>> {
        for index in 0..self.queues.len() {
            if let Some(free) = self.queues[index].1.front()
                && free.event.is_done()?
            {
                return Ok(Some(self.take_front(index)));
            }
        }
        Ok(None)
    }

    /// Waits for an event, removes it, and returns its block. Returns `None` if there is no event.
    pub(crate) fn wait_next(&mut self) -> Result<Option<BlockId>> {
        let Some(free) = self.queues.first().and_then(|(_, queue)| queue.front()) else {
            return Ok(None);
        };
        free.event.wait()?;
        Ok(Some(self.take_front(0)))
    }

    fn take_front(&mut self, index: usize) -> BlockId {
        let (_, queue) = &mut self.queues[index];
        let free = queue.pop_front().expect("queues are never empty");
        if queue.is_empty() {
            self.queues.swap_remove(index);
        }
        free.block
    }
}
