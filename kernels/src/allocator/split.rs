//! Decides whether a block is split, splits blocks in two, and merges them.

use super::block::{Block, BlockId, BlockState, Blocks};
use super::size::{GRANULE, PoolKind, SMALL_LIMIT};

impl PoolKind {
    /// Whether a block is split when `rest` bytes of it are not needed.
    ///
    /// A large block is not split if at most 1 MiB of it is not needed, because the pool of large
    /// blocks could not use the rest.
    #[inline]
    pub(crate) fn splits_off(self, rest: usize) -> bool {
        match self {
            Self::Small => rest >= GRANULE,
            Self::Large => rest > SMALL_LIMIT,
        }
    }
}

impl Blocks {
    /// Splits an inactive block after its first `size` bytes. The front part keeps the block's ID.
    /// Returns the ID of the rest.
    #[inline]
    pub(crate) fn split(&mut self, front: BlockId, size: usize) -> BlockId {
        let rest = self.take_vacant();
        let whole = &mut self[front];
        debug_assert!(size < whole.size, "the rest must not be empty");
        let after = whole.next.replace(rest);
        let mut block = Block::segment(whole.address + size as u64, whole.size - size, whole.pool);
        (block.previous, block.next) = (Some(front), after);
        whole.size = size;
        self[rest] = block;
        if let Some(after) = after {
            self[after].previous = Some(rest);
        }
        rest
    }

    /// Merges an inactive block with the inactive block after it, which then ceases to exist.
    #[inline]
    pub(crate) fn join_next(&mut self, front: BlockId) {
        let next = self[front].next.expect("a block behind it");
        let Block {
            size, next: after, ..
        } = self[next];
        self.remove(next);
        let block = &mut self[front];
        block.size += size;
        block.next = after;
        if let Some(after) = after {
            self[after].previous = Some(front);
        }
    }

    /// Returns the neighbour, if it is cached.
    #[inline]
    pub(crate) fn inactive(&self, neighbour: Option<BlockId>) -> Option<BlockId> {
        neighbour.filter(|id| self[*id].state == BlockState::Inactive)
    }
}
