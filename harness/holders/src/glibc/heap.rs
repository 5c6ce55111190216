//! Recognises heap blocks in the layout of glibc's allocator.
//!
//! Each block is preceded by a word that holds its length and whether the previous block is in use;
//! see [malloc internals](https://sourceware.org/glibc/wiki/MallocInternals). Nothing else identifies
//! a block, so an address is accepted as a block only if several headers in a row are consistent:
//! blocks of an allocator with a different layout are not followed.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::memory::{Memory, PAGE, Pages};

/// Set if the previous block is in use.
const PREVIOUS_IN_USE: u64 = 1;
/// Set for a block in its own mapping.
const MAPPED: u64 = 2;
/// All flags in a header.
const FLAGS: u64 = 7;
/// The alignment and granularity of blocks.
const GRAIN: u64 = 16;
const SMALLEST: u64 = 32;
/// The smallest size that an allocator maps.
const ALLOCATORS: u64 = 256 << 10;
/// A size that stacks and variables rarely exceed.
const OTHERS: u64 = 16 << 20;
/// Where an arena is in its first region, which is aligned to its largest size.
const ARENA: u64 = 0x30;
const LARGEST_ARENA: u64 = 64 << 20;
/// How many blocks with mappings of their own are looked at in a region.
const MOST_MAPPED: u32 = 16;
/// How many headers in a row must be consistent.
const ROW: u32 = 3;

/// The memory in which blocks can be.
#[derive(Clone, Debug, Default)]
pub(super) struct Heap {
    /// The numbers of their pages, in order.
    regions: Vec<Range<u64>>,
    /// What other regions may be than an allocator's, by their first pages.
    others: FxHashMap<u64, Other>,
}

/// What a region may be that has no blocks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Other {
    /// It continues a library's variables.
    Variables,
    /// It is the stack of a thread that has ended, or of a coroutine.
    Stack,
}

impl Heap {
    /// Blocks in the pages that contain these addresses.
    pub(super) fn new(regions: impl IntoIterator<Item = Range<u64>>) -> Self {
        let pages = |region: Range<u64>| region.start / PAGE..region.end.div_ceil(PAGE);
        let mut regions: Vec<_> = regions.into_iter().map(pages).collect();
        regions.sort_by_key(|region| region.start);
        Self {
            regions,
            others: FxHashMap::default(),
        }
    }

    /// The same, where the regions that begin at the pages `others` may be something else than an allocator's. They
    /// may be both: the kernel joins neighbours.
    pub(super) fn with_others(self, others: FxHashMap<u64, Other>) -> Self {
        Self { others, ..self }
    }

    /// Returns what a region without blocks is, judged by its size and position; `None` if it is an allocator's.
    pub(super) fn other(&self, region: &Range<u64>) -> Option<Other> {
        let bytes = region.end - region.start;
        // These belong to the loader and to threads.
        if bytes < ALLOCATORS {
            return Some(Other::Variables);
        }
        let other = self.others.get(&(region.start / PAGE)).copied();
        other.filter(|_| bytes <= OTHERS)
    }

    /// Returns the region that contains an address.
    pub(super) fn region(&self, address: u64) -> Option<Range<u64>> {
        let page = address / PAGE;
        let behind = self.regions.partition_point(|region| region.start <= page);
        let region = self.regions.get(behind.checked_sub(1)?)?;
        (page < region.end).then_some(region.start * PAGE..region.end * PAGE)
    }

    /// Returns the block with `address` in it, if its header is at most `backward` bytes away.
    pub(super) fn block<M: Memory>(
        &self,
        address: u64,
        backward: u64,
        pages: &mut Pages<M>,
    ) -> Option<Block> {
        let region = self.region(address)?;
        let nearest = address - address % GRAIN;
        let lowest = nearest.saturating_sub(backward).max(region.start + GRAIN);
        let mut start = nearest;
        while start >= lowest {
            let block = block_at(start, &region, pages);
            if let Some(block) = block.filter(|block| block.addresses.contains(&address)) {
                return Some(block);
            }
            start -= GRAIN;
        }
        mapped_block(address, &region, pages)
    }
}

/// Returns the block with `address` in it if it is one of the first in its region and each has a mapping of its own:
/// something may point far behind its header.
fn mapped_block<M: Memory>(
    address: u64,
    region: &Range<u64>,
    pages: &mut Pages<M>,
) -> Option<Block> {
    let mut start = region.start + GRAIN;
    for _ in 0..MOST_MAPPED {
        let is_mapped = pages.word(start - 8)? & MAPPED != 0;
        let block = block_at(start, region, pages).filter(|_| is_mapped)?;
        if block.addresses.contains(&address) {
            return Some(block);
        }
        start = block.addresses.end + GRAIN;
    }
    None
}

/// Whether a region begins as glibc's do: with the address of its arena, or with a block that has a mapping of its own.
pub(super) fn is_of_glibc<M: Memory>(region: &Range<u64>, pages: &mut Pages<M>) -> bool {
    let arena = pages.word(region.start).unwrap_or(0);
    let is_arena = arena
        .checked_sub(ARENA)
        .is_some_and(|it| it != 0 && it.is_multiple_of(LARGEST_ARENA));
    let is_mapped = pages
        .word(region.start + 8)
        .is_some_and(|header| header & MAPPED != 0);
    is_arena || is_mapped && block_at(region.start + GRAIN, region, pages).is_some()
}

/// The memory between two headers.
pub(super) struct Block {
    pub(super) addresses: Range<u64>,
    pub(super) in_use: bool,
}

/// Returns the block that begins at `start`, if there is one.
fn block_at<M: Memory>(start: u64, region: &Range<u64>, pages: &mut Pages<M>) -> Option<Block> {
    let header = pages.word(start - 8)?;
    let size = header & !FLAGS;
    if size < SMALLEST || !size.is_multiple_of(GRAIN) {
        return None;
    }
    let end = (start - GRAIN).checked_add(size)?;
    if header & MAPPED != 0 {
        let is_whole = (start - GRAIN).is_multiple_of(PAGE)
            && size.is_multiple_of(PAGE)
            && header & FLAGS == MAPPED
            && end <= region.end;
        return is_whole.then_some(Block {
            addresses: start..end,
            in_use: true,
        });
    }
    let mut next = end;
    let mut in_use = true;
    for _ in 1..ROW {
        let header = next_header(next, region, pages)?;
        if next == end {
            in_use = header & PREVIOUS_IN_USE != 0;
        }
        let size = header & !FLAGS;
        if header & MAPPED != 0 || size < GRAIN || !size.is_multiple_of(GRAIN) {
            return None;
        }
        next = next.checked_add(size)?;
        if next > region.end {
            return None;
        }
        if next == region.end {
            // Memory that has not been handed out yet.
            break;
        }
    }
    // The first word of the next block belongs to this one as well.
    Some(Block {
        addresses: start..end + 8,
        in_use,
    })
}

/// Returns the header of the block whose header is at `at`.
fn next_header<M: Memory>(at: u64, region: &Range<u64>, pages: &mut Pages<M>) -> Option<u64> {
    let is_inside = at < region.end && region.end - at >= GRAIN;
    is_inside.then(|| pages.word(at + 8)).flatten()
}
