//! The cached blocks of one pool, by stream and size.

use super::block::{Block, BlockId};
use crate::stream::StreamId;

/// Cached blocks, from which a request gets the best fit: the smallest block that is large enough,
/// with the lowest address among equals. PyTorch chooses the same block.
///
/// With the few dozen entries that a training loop keeps, bins of sorted entries take half the time
/// of a tree, and allocate no host memory once they have grown.
#[derive(Debug, Default)]
pub(crate) struct Pool(Vec<(StreamId, Bins)>);

impl Pool {
    pub(crate) fn insert(&mut self, id: BlockId, block: &Block) {
        let known = self.0.iter_mut().position(|(s, _)| *s == block.stream);
        let index = known.unwrap_or_else(|| {
            self.0.push((block.stream, Bins::default()));
            self.0.len() - 1
        });
        self.0[index].1.insert(Entry::of(id, block));
    }

    /// Removes a block that has not changed since it was inserted.
    pub(crate) fn remove(&mut self, id: BlockId, block: &Block) {
        let bins = self.bins(block.stream).expect("a block of the pool");
        bins.remove(Entry::of(id, block));
    }

    /// Removes the smallest block of the stream that has at least `size` bytes.
    pub(crate) fn take_best_fit(&mut self, stream: StreamId, size: usize) -> Option<BlockId> {
        self.bins(stream)?.take_best_fit(size)
    }

    fn bins(&mut self, stream: StreamId) -> Option<&mut Bins> {
        let mut streams = self.0.iter_mut();
        streams.find_map(|(id, bins)| (*id == stream).then_some(bins))
    }

    /// All of them.
    pub(crate) fn ids(&self) -> impl Iterator<Item = BlockId> {
        let bins = self.0.iter().flat_map(|(_, bins)| &bins.bins);
        bins.flatten().map(|entry| entry.block)
    }
}

/// Sorted by size, then address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    /// Entries of one octave of sizes share a bin.
    fn bin(self) -> usize {
        self.size.ilog2() as usize
    }
}

/// One stream's entries, binned by size.
#[derive(Debug)]
struct Bins {
    bins: [Vec<Entry>; usize::BITS as usize],
    /// A bit for each bin that is not empty.
    occupied: u64,
}

impl Default for Bins {
    fn default() -> Self {
        Self {
            bins: [const { Vec::new() }; usize::BITS as usize],
            occupied: 0,
        }
    }
}

impl Bins {
    fn insert(&mut self, entry: Entry) {
        let bin = &mut self.bins[entry.bin()];
        bin.insert(bin.partition_point(|other| *other < entry), entry);
        self.occupied |= 1 << entry.bin();
    }

    fn remove(&mut self, entry: Entry) {
        let place = self.bins[entry.bin()].partition_point(|other| *other < entry);
        let found = self.take(entry.bin(), place);
        debug_assert_eq!(found, entry, "not cached");
    }

    fn take_best_fit(&mut self, size: usize) -> Option<BlockId> {
        let least = Entry {
            size,
            address: 0,
            block: BlockId::FIRST,
        };
        let bin = least.bin();
        let place = self.bins[bin].partition_point(|other| *other < least);
        if place < self.bins[bin].len() {
            return Some(self.take(bin, place).block);
        }
        // Everything in a later bin is large enough, so the first block of the next bin is the best
        // fit.
        let later = self.occupied & (u64::MAX << bin << 1);
        (later != 0).then(|| self.take(later.trailing_zeros() as usize, 0).block)
    }

    fn take(&mut self, bin: usize, place: usize) -> Entry {
        let taken = self.bins[bin].remove(place);
        if self.bins[bin].is_empty() {
            self.occupied &= !(1 << bin);
        }
        taken
    }
}
