//! Splits blocks in two and merges them.

use super::block::{Block, BlockId, BlockState, Blocks};

impl Blocks {
    /// Splits `size` bytes off the front of an inactive block. The front keeps the identity; the
    /// rest is returned.
    pub(crate) fn split(&mut self, front: BlockId, size: usize) -> BlockId {
        let whole = &mut self[front];
        debug_assert!(size < whole.size, "nothing would be left");
        let mut rest = Block::segment(
            whole.address + size as u64,
            whole.size - size,
            whole.stream,
            whole.pool,
            whole.private,
        );
        rest.previous = Some(front);
        rest.next = whole.next;
        whole.size = size;

        let after = rest.next;
        let rest = self.insert(rest);
        self[front].next = Some(rest);
        if let Some(after) = after {
            self[after].previous = Some(rest);
        }
        rest
    }

    /// Merges an inactive block with the inactive one after it, which no longer exists afterwards.
    pub(crate) fn join_next(&mut self, front: BlockId) {
        let next = self[front].next.expect("a block behind it");
        let gone = self.remove(next);
        debug_assert_eq!(gone.state, BlockState::Inactive);
        let block = &mut self[front];
        block.size += gone.size;
        block.next = gone.next;
        if let Some(after) = gone.next {
            self[after].previous = Some(front);
        }
    }

    /// The neighbour, if it is cached.
    pub(crate) fn inactive(&self, neighbour: Option<BlockId>) -> Option<BlockId> {
        neighbour.filter(|id| self[*id].state == BlockState::Inactive)
    }
}
