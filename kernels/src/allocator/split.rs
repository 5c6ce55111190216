//! Decides whether a block is split, splits blocks in two, and merges them.

use super::block::{Block, BlockId, BlockState, Blocks};
use super::size::{GRANULE, PoolKind, SMALL_LIMIT};

impl PoolKind {
    /// Whether a block is split when `rest` bytes of it are not needed.
    ///
    /// A large block keeps up to 1 MiB more than requested, because its pool could not use the
    /// rest.
    #[inline]
    pub(crate) fn splits_off(self, rest: usize) -> bool {
        match self {
            Self::Small => rest >= GRANULE,
            Self::Large => rest > SMALL_LIMIT,
        }
    }
}

impl Blocks {
    /// Splits the first `size` bytes off an inactive block. The front part keeps its identity.
    /// Returns the identity of the rest.
    #[inline]
    pub(crate) fn split(&mut self, front: BlockId, size: usize) -> BlockId {
        let rest = self.take_vacant();
        let whole = &mut self[front];
        debug_assert!(size < whole.size, "nothing would be left");
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

    /// Merges an inactive block with the inactive block after it, which then no longer exists.
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
