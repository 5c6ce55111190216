//! The cached blocks of one pool, by size.

use std::collections::BTreeSet;

use super::block::{Block, BlockId};
use super::stream::StreamId;

/// Cached blocks in the order (stream, size, address): the first that fits is the best fit, the
/// lowest address among equals. That order is PyTorch's.
#[derive(Debug, Default)]
pub(crate) struct Pool(BTreeSet<Entry>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    stream: StreamId,
    size: usize,
    address: u64,
    block: BlockId,
}

impl Entry {
    fn of(id: BlockId, block: &Block) -> Self {
        Self {
            stream: block.stream,
            size: block.size,
            address: block.address,
            block: id,
        }
    }
}

impl Pool {
    pub(crate) fn insert(&mut self, id: BlockId, block: &Block) {
        let new = self.0.insert(Entry::of(id, block));
        debug_assert!(new, "cached twice");
    }

    /// Takes out a block that has not changed since it was put in.
    pub(crate) fn remove(&mut self, id: BlockId, block: &Block) {
        let found = self.0.remove(&Entry::of(id, block));
        debug_assert!(found, "not cached");
    }

    /// Takes out the smallest block of the stream that has at least `size` bytes.
    pub(crate) fn take_best_fit(&mut self, stream: StreamId, size: usize) -> Option<BlockId> {
        let least = Entry {
            stream,
            size,
            address: 0,
            block: BlockId::FIRST,
        };
        let found = *self.0.range(least..).next()?;
        if found.stream != stream {
            return None;
        }
        self.0.remove(&found);
        Some(found.block)
    }

    /// All of them, in order.
    pub(crate) fn ids(&self) -> Vec<BlockId> {
        self.0.iter().map(|entry| entry.block).collect()
    }
}
