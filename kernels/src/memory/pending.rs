//! Blocks that were freed while other streams still use them.

use std::collections::VecDeque;

use super::block::BlockId;
use super::storage::Event;
use super::stream::StreamId;
use crate::error::Result;

/// Marks in streams and the blocks that wait for them. Marks of one stream are passed in order.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    queues: Vec<(StreamId, VecDeque<Mark>)>,
}

#[derive(Debug)]
struct Mark {
    event: Box<dyn Event>,
    block: BlockId,
}

impl Pending {
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    pub(crate) fn push(&mut self, stream: StreamId, event: Box<dyn Event>, block: BlockId) {
        let mark = Mark { event, block };
        match self.queues.iter_mut().find(|(id, _)| *id == stream) {
            Some((_, queue)) => queue.push_back(mark),
            None => self.queues.push((stream, VecDeque::from([mark]))),
        }
    }

    /// Takes out a block whose mark has been passed; it may wait for others. None when every
    /// stream is still busy.
    pub(crate) fn next_done(&mut self) -> Result<Option<BlockId>> {
        for index in 0..self.queues.len() {
            if let Some(mark) = self.queues[index].1.front()
                && mark.event.is_done()?
            {
                return Ok(Some(self.take_front(index)));
            }
        }
        Ok(None)
    }

    /// Waits for a mark and takes out its block. None when there is no mark.
    pub(crate) fn wait_next(&mut self) -> Result<Option<BlockId>> {
        let Some(mark) = self.queues.first().and_then(|(_, queue)| queue.front()) else {
            return Ok(None);
        };
        mark.event.wait()?;
        Ok(Some(self.take_front(0)))
    }

    fn take_front(&mut self, index: usize) -> BlockId {
        let (_, queue) = &mut self.queues[index];
        let mark = queue.pop_front().expect("queues are never empty");
        if queue.is_empty() {
            self.queues.swap_remove(index);
        }
        mark.block
    }
}
