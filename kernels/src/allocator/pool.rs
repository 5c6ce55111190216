//! The cached blocks of one pool, by size.

use super::block::{Block, BlockId};
use super::pool_id::PoolId;
use super::size::PoolKind;
use crate::stream::StreamId;

/// Cached blocks that serve the same requests. A request gets the best fit: the smallest block that
/// is large enough, with the lowest address among equals. PyTorch chooses the same block.
///
/// With the few dozen entries that a training loop keeps, bins of sorted entries take half the time
/// of a tree, and allocate no host memory once they have grown.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) stream: StreamId,
    pub(crate) kind: PoolKind,
    /// The private pool that this pool is part of.
    pub(crate) private: Option<PoolId>,
    /// A bit for each bin that is not empty.
    occupied: u64,
    bins: [Vec<Entry>; usize::BITS as usize],
}

/// The place of a cached block. It is valid until the pool changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    bin: usize,
    index: usize,
}

/// A cached block, with its sort key.
#[derive(Clone, Copy, Debug)]
struct Entry {
    size: usize,
    address: u64,
    block: BlockId,
}

impl Entry {
    fn of(id: BlockId, block: &Block) -> Self {
        Self {
            size: block.size,
            address: block.address,
            block: id,
        }
    }

    /// Whether this entry comes before a block of this size and address in the sort order.
    #[inline]
    fn is_before(&self, size: usize, address: u64) -> bool {
        self.size < size || self.size == size && self.address < address
    }
}

/// All sizes from one power of two up to the next share a bin.
#[inline]
fn bin_of(size: usize) -> usize {
    size.ilog2() as usize
}

impl Pool {
    pub(crate) fn new(private: Option<PoolId>, kind: PoolKind, stream: StreamId) -> Self {
        Self {
            stream,
            kind,
            private,
            occupied: 0,
            bins: [const { Vec::new() }; usize::BITS as usize],
        }
    }

    /// The smallest block with at least `size` bytes.
    #[inline]
    pub(crate) fn best_fit(&self, size: usize) -> Option<(Place, BlockId)> {
        let mut place = self.place(size, 0);
        if place.index == self.bins[place.bin].len() {
            // Every block in a later bin is large enough.
            let later = self.occupied & (u64::MAX << place.bin << 1);
            if later == 0 {
                return None;
            }
            place = Place {
                bin: later.trailing_zeros() as usize,
                index: 0,
            };
        }
        Some((place, self.bins[place.bin][place.index].block))
    }

    #[inline]
    pub(crate) fn find(&self, block: &Block) -> Place {
        self.place(block.size, block.address)
    }

    /// Returns the place of a block in the sorted bins, or the place that it would have.
    #[inline]
    fn place(&self, size: usize, address: u64) -> Place {
        let bin = bin_of(size);
        let index = self.bins[bin].partition_point(|entry| entry.is_before(size, address));
        Place { bin, index }
    }

    #[inline]
    pub(crate) fn insert(&mut self, id: BlockId, block: &Block) -> Place {
        let place = self.find(block);
        self.bins[place.bin].insert(place.index, Entry::of(id, block));
        self.occupied |= 1 << place.bin;
        place
    }

    #[inline]
    pub(crate) fn remove(&mut self, place: Place) {
        let bin = &mut self.bins[place.bin];
        if place.index + 1 < bin.len() {
            bin.remove(place.index);
        } else {
            bin.pop();
            if bin.is_empty() {
                self.occupied &= !(1 << place.bin);
            }
        }
    }

    /// Replaces a block by the rest after a split, or by the result of a merge. The new block often
    /// gets the same place.
    #[inline]
    pub(crate) fn replace(&mut self, place: Place, id: BlockId, block: &Block) {
        let bin = &mut self.bins[place.bin];
        let is_before = |entry: &Entry| entry.is_before(block.size, block.address);
        if bin_of(block.size) == place.bin
            && (place.index == 0 || is_before(&bin[place.index - 1]))
            && !bin.get(place.index + 1).is_some_and(is_before)
        {
            bin[place.index] = Entry::of(id, block);
        } else {
            self.remove(place);
            self.insert(id, block);
        }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = BlockId> {
        self.bins.iter().flatten().map(|entry| entry.block)
    }
}
