//! Recognises heap blocks in the layout of glibc's allocator.
//!
//! Each block is preceded by a word that holds its length and shows whether the previous block is
//! in use (see [malloc internals](https://sourceware.org/glibc/wiki/MallocInternals)). If it is
//! not, the word before this one holds the length of the previous block. Nothing else identifies a
//! block, so an address is accepted as a block only if several headers in a row are consistent.
//! Blocks of an allocator with a different layout are not followed.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::memory::{Memory, PAGE, Pages};

/// Set in a header if the previous block is in use.
const PREVIOUS_IN_USE: u64 = 1;
/// Set in the header of a block that has its own mapping.
const MAPPED: u64 = 2;
/// Set only in the headers of blocks of arenas other than the main one, at least while the blocks
/// are in use.
const OF_OTHER_ARENA: u64 = 4;
/// All flags in a header.
const FLAGS: u64 = 7;
/// The alignment and granularity of blocks.
const GRAIN: u64 = 16;
const SMALLEST: u64 = 32;
/// The smallest region that is assumed to belong to an allocator, in bytes.
const ALLOCATORS: u64 = 256 << 10;
/// A size in bytes that stacks and variables rarely exceed.
const OTHERS: u64 = 16 << 20;
/// The offset of an arena in its first region. Each region of an arena is aligned to the largest
/// size of a region.
const ARENA: u64 = 0x30;
const LARGEST_OF_ARENA: u64 = 64 << 20;
/// The largest number of blocks with separate mappings that are examined in a region.
const MOST_MAPPED: u32 = 16;
/// How many headers in a row must be consistent for an address to be accepted as a block.
const ROW: u32 = 3;

/// The memory that can contain blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Heap {
    /// The page numbers of each region, in order.
    regions: Vec<Range<u64>>,
    /// The regions that perhaps do not belong to an allocator, by the number of their first page,
    /// and what they may be instead. Such a region may nevertheless contain blocks, because the
    /// kernel merges adjacent mappings.
    pub(super) others: FxHashMap<u64, Other>,
    /// The address range of the main arena (the memory below the program break), if known. Its
    /// headers differ from those of other arenas.
    pub(super) main: Option<Range<u64>>,
}

/// The memory that can contain the block around a certain address.
struct Around {
    region: Range<u64>,
    /// The part of `region` that contains blocks without separate mappings. Regions may be
    /// adjacent, but each block lies in only one of them.
    of_arena: Range<u64>,
    /// Whether this memory belongs to the main arena; `None` if that is unknown.
    is_main: Option<bool>,
}

/// What a region without blocks may be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Other {
    /// The continuation of a library's variables.
    Variables,
    /// The stack of a coroutine, or of a thread that has ended.
    Stack,
}

impl Heap {
    /// Creates a heap from the pages that contain these address ranges.
    pub(super) fn new(regions: impl IntoIterator<Item = Range<u64>>) -> Self {
        let pages = |region: Range<u64>| region.start / PAGE..region.end.div_ceil(PAGE);
        let mut regions: Vec<_> = regions.into_iter().map(pages).collect();
        regions.sort_by_key(|region| region.start);
        Self {
            regions,
            ..Self::default()
        }
    }

    /// Classifies a region without blocks by its size and position. Returns `None` if it belongs
    /// to an allocator.
    pub(super) fn other(&self, region: &Range<u64>) -> Option<Other> {
        let bytes = region.end - region.start;
        // Regions this small belong to the loader and to threads.
        if bytes < ALLOCATORS {
            return Some(Other::Variables);
        }
        let other = self.others.get(&(region.start / PAGE)).copied();
        other.filter(|_| bytes <= OTHERS)
    }

    pub(super) fn region(&self, address: u64) -> Option<Range<u64>> {
        let page = address / PAGE;
        let (mut first, mut end) = (0, self.regions.len());
        // This binary search uses no closures, because each use of a closure is a call in an
        // unoptimised build.
        while first < end {
            let middle = (first + end) / 2;
            let region = &self.regions[middle];
            if page < region.start {
                end = middle;
            } else if page >= region.end {
                first = middle + 1;
            } else {
                return Some(region.start * PAGE..region.end * PAGE);
            }
        }
        None
    }

    /// Returns the block that contains `address`, if its header is at most `backward` bytes away.
    pub(super) fn block<M: Memory>(
        &self,
        address: u64,
        backward: u64,
        pages: &mut Pages<M>,
    ) -> Option<Block> {
        let around = self.around(address)?;
        let nearest = address - address % GRAIN;
        let lowest = nearest
            .saturating_sub(backward)
            .max(around.region.start + GRAIN);
        // Most words are not the header of a block that contains the address and fits into the
        // region. Checking this takes less time than checking whether other headers follow.
        let end = around.region.end;
        let is_likely = |at: u64, header: u64| {
            let size = header & !FLAGS;
            size >= address - (at + 8) && size <= end - (at - 8)
        };
        let mut headers = lowest - 8..=nearest - 8;
        while let Some(header) = pages.last_word(headers.clone(), nearest, GRAIN, is_likely) {
            let block = block_at(header + 8, &around, pages);
            if let Some(block) = block.filter(|block| block.addresses.contains(&address)) {
                return Some(block);
            }
            headers = lowest - 8..=header - GRAIN;
        }
        mapped_block(address, &around.region, pages)
    }

    fn around(&self, address: u64) -> Option<Around> {
        let region = self.region(address)?;
        let is_main = self.main.as_ref().map(|main| main.contains(&address));
        let first = address - address % LARGEST_OF_ARENA;
        let of_arena = match is_main {
            Some(false) => region.start.max(first)..region.end.min(first + LARGEST_OF_ARENA),
            _ => region.clone(),
        };
        Some(Around {
            region,
            of_arena,
            is_main,
        })
    }
}

/// Returns the block that contains `address`, if that block is among the first blocks of its region
/// and every block up to it has a separate mapping. Such a block may be large, so a pointer into it
/// may be far beyond its header.
fn mapped_block<M: Memory>(
    address: u64,
    region: &Range<u64>,
    pages: &mut Pages<M>,
) -> Option<Block> {
    let mut start = region.start + GRAIN;
    for _ in 0..MOST_MAPPED {
        let block = mapped_at(start, region, pages)?;
        if block.addresses.contains(&address) {
            return Some(block);
        }
        start = block.addresses.end + GRAIN;
    }
    None
}

/// Whether a region begins as glibc's regions do: with the address of its arena, or with a block
/// that has a separate mapping.
pub(super) fn is_of_glibc<M: Memory>(region: &Range<u64>, pages: &mut Pages<M>) -> bool {
    let arena = pages.word(region.start).unwrap_or(0);
    let is_arena = arena
        .checked_sub(ARENA)
        .is_some_and(|it| it != 0 && it.is_multiple_of(LARGEST_OF_ARENA));
    is_arena || mapped_at(region.start + GRAIN, region, pages).is_some()
}

/// The memory between two headers.
pub(super) struct Block {
    pub(super) addresses: Range<u64>,
    pub(super) in_use: bool,
}

/// Returns the block that begins at `start` and has a separate mapping, if there is one.
fn mapped_at<M: Memory>(start: u64, region: &Range<u64>, pages: &mut Pages<M>) -> Option<Block> {
    let header = pages.word(start - 8)?;
    let size = header & !FLAGS;
    let end = (start - GRAIN).checked_add(size)?;
    let is_whole = (start - GRAIN).is_multiple_of(PAGE)
        && size >= PAGE
        && size.is_multiple_of(PAGE)
        && header & FLAGS == MAPPED
        && end <= region.end;
    is_whole.then_some(Block {
        addresses: start..end,
        in_use: true,
    })
}

/// Returns the block that begins at `start`, if there is one.
fn block_at<M: Memory>(start: u64, around: &Around, pages: &mut Pages<M>) -> Option<Block> {
    let header = pages.word(start - 8)?;
    if header & MAPPED != 0 {
        return mapped_at(start, &around.region, pages);
    }
    let is_of_main = header & OF_OTHER_ARENA == 0;
    let all = &around.of_arena;
    let is_size = |size: u64| size >= SMALLEST && size.is_multiple_of(GRAIN);
    let mut size = header & !FLAGS;
    if around.is_main == Some(true) && !is_of_main
        || !is_size(size)
        || !all.contains(&(start - GRAIN))
    {
        return None;
    }
    if header & PREVIOUS_IN_USE == 0 {
        let previous = pages.word(start - GRAIN)?;
        if !is_size(previous) || previous > start - GRAIN - all.start {
            return None;
        }
    }
    let end = (start - GRAIN).checked_add(size)?;
    let mut next = end;
    let mut in_use = true;
    for _ in 1..ROW {
        let header = next_header(next, all, pages)?;
        let is_free = header & PREVIOUS_IN_USE == 0;
        if is_free && pages.word(next) != Some(size) {
            return None;
        }
        if next == end {
            in_use = !is_free;
        }
        size = header & !FLAGS;
        if header & MAPPED != 0 || size < GRAIN || !size.is_multiple_of(GRAIN) {
            return None;
        }
        next = next.checked_add(size)?;
        if next > all.end {
            return None;
        }
        if next == all.end {
            // Memory from here on has not been handed out yet.
            break;
        }
    }
    // A block of another arena loses its flag when it is freed.
    if in_use && around.is_main == Some(false) && is_of_main {
        return None;
    }
    // The first word of the next block also belongs to this block.
    Some(Block {
        addresses: start..end + 8,
        in_use,
    })
}

/// Returns the header at `at`, which follows a block, if it is inside the region.
fn next_header<M: Memory>(at: u64, region: &Range<u64>, pages: &mut Pages<M>) -> Option<u64> {
    let is_inside = at < region.end && region.end - at >= GRAIN;
    is_inside.then(|| pages.word(at + 8)).flatten()
}

#[cfg(test)]
mod tests {
    use super::super::memory::Pages;
    use super::super::tests::{Synthetic, unlimited};
    use super::{Heap, LARGEST_OF_ARENA, PAGE};

    /// The beginning of a region of an arena, and the first block in it.
    const REGION: u64 = 0x7000 * LARGEST_OF_ARENA;
    const FIRST: u64 = REGION + 0x8c0;

    /// Returns the beginning of the block that contains `address`, and whether it is in use. The
    /// region has blocks with these headers from `FIRST` on, and the kernel has merged it with the
    /// region before it.
    fn block(headers: [u64; 4], address: u64, main: std::ops::Range<u64>) -> Option<(u64, bool)> {
        let mut memory = Synthetic::default();
        for page in 0..32 {
            memory.put(REGION + page * PAGE - 16 * PAGE, 0);
        }
        // Before the region, something looks like the header of a block that ends where the first
        // block begins.
        memory.put(REGION - PAGE + 8, (FIRST - (REGION - PAGE)) | 1);
        let (mut at, mut previous) = (FIRST, 0);
        for header in headers {
            if header & 1 == 0 {
                memory.put(at, previous);
            }
            memory.put(at + 8, header);
            previous = header & !7;
            at += previous;
        }
        let joined = REGION - 16 * PAGE..REGION + 16 * PAGE;
        let heap = Heap {
            main: Some(main),
            ..Heap::new([joined])
        };
        let mut pages = Pages::new(memory, unlimited());
        let block = heap.block(address, 16 * PAGE, &mut pages)?;
        Some((block.addresses.start, block.in_use))
    }

    #[test]
    fn a_block_is_in_one_region_of_an_arena() {
        let headers = [0x105, 0x105, 0x105, 0x105];
        let second = FIRST + 0x110;
        assert_eq!(block(headers, second, 0..0), Some((second, true)));
        assert_eq!(block(headers, REGION + 0x50, 0..0), None);
        // If the region may belong to the main arena, the block before it is accepted.
        let headers = [0x101, 0x101, 0x101, 0x101];
        let found = block(headers, REGION + 0x50, 0..u64::MAX);
        assert_eq!(found, Some((REGION - PAGE + 16, true)));
    }

    #[test]
    fn a_block_that_is_in_use_says_of_which_arena_it_is() {
        let second = FIRST + 0x110;
        let (of_main, of_other) = ([0x101; 4], [0x105; 4]);
        assert_eq!(block(of_main, second, 0..0), None);
        assert_eq!(block(of_other, second, 0..u64::MAX), None);
        // A block loses its arena flag when it is freed.
        let freed = [0x105, 0x101, 0x104, 0x105];
        assert_eq!(block(freed, second, 0..0), Some((second, false)));
    }

    #[test]
    fn a_number_that_contradicts_the_words_around_it_is_not_a_header() {
        let second = FIRST + 0x110;
        let everywhere = 0..u64::MAX;
        let header = |header| block([0x101, header, 0x101, 0x101], second, everywhere.clone());
        assert_eq!(header(0x101), Some((second, true)));
        // The previous block is free, as the word before the header confirms.
        assert_eq!(header(0x100), Some((second, true)));
        assert_eq!(
            header(0x105),
            None,
            "no block of the main arena has this flag"
        );
        let found = |first| {
            let mut memory = Synthetic::default();
            (FIRST / PAGE..FIRST / PAGE + 2).for_each(|page| memory.put(page * PAGE, 0));
            let headers = (FIRST..).step_by(0x100).zip([first, 0x101, 0x101]);
            headers.for_each(|(at, header)| memory.put(at + 8, header));
            let heap = Heap::new(std::iter::once(REGION..REGION + 16 * PAGE));
            let mut pages = Pages::new(memory, unlimited());
            heap.block(FIRST + 0x10, 0, &mut pages).is_some()
        };
        assert!(found(0x101));
        assert!(!found(0x100), "the size of the previous block is missing");
    }
}
