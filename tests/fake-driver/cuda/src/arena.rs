//! The source of addresses: blocks that are mapped on the host and cut into pieces of 512 bytes or
//! more.
//!
//! The piece that was freed last is the next one of its size to be handed out, so two threads race
//! for one address as on a GPU. Mappings are never undone. A released block keeps its addresses and
//! loses its contents.

#![expect(
    unsafe_code,
    reason = "maps and drops the memory behind device addresses"
)]

use std::collections::{BTreeMap, HashMap};

/// Alignment and minimum size of a piece, as for `cuMemAlloc`.
pub(crate) const ALIGNMENT: u64 = 512;
/// The lowest 32-bit address that is tried. A program that cannot be relocated lies below it.
const LOWEST: u64 = 1 << 28;

#[derive(Debug)]
struct Block {
    size: u64,
    /// The end of the pieces that were cut from this block since it was last empty.
    cut: u64,
    live: usize,
    /// Whether this block currently uses memory of the device.
    committed: bool,
    /// Whether the host has not yet observed the completion of a stream-ordered free in this block.
    /// Until it has, a trim must not release the block.
    unobserved: bool,
}

/// An address space that grows by whole blocks.
#[derive(Debug)]
pub(crate) struct Arena {
    granularity: u64,
    /// Whether addresses have at most 32 bits.
    is_low: bool,
    blocks: BTreeMap<u64, Block>,
    /// Freed pieces by size, the newest last.
    free: HashMap<u64, Vec<u64>>,
    reserved: u64,
}

/// The bytes that a request uses: whole units of 512 bytes.
pub(crate) fn rounded(size: u64) -> u64 {
    size.next_multiple_of(ALIGNMENT)
}

impl Default for Arena {
    /// An arena that grows by 2 MiB, as the driver's own does.
    fn default() -> Self {
        Self::new(2 << 20)
    }
}

impl Arena {
    pub(crate) fn new(granularity: u64) -> Self {
        Self {
            granularity,
            is_low: false,
            blocks: BTreeMap::new(),
            free: HashMap::new(),
            reserved: 0,
        }
    }

    /// An arena with 32-bit addresses.
    pub(crate) fn low(granularity: u64) -> Self {
        Self {
            is_low: true,
            ..Self::new(granularity)
        }
    }

    /// The bytes of the device that the arena holds, in whole blocks.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// The number of bytes that the device would still have to provide for a piece of `size` bytes.
    pub(crate) fn growth(&self, size: u64) -> u64 {
        let size = rounded(size);
        let reusable = self.free.get(&size).and_then(|pieces| pieces.last());
        match reusable {
            Some(&piece) if self.block_of(piece).1.committed => 0,
            Some(&piece) => self.block_of(piece).1.size,
            None if self
                .blocks
                .values()
                .any(|block| block.committed && block.has_room(size)) =>
            {
                0
            }
            None => size.next_multiple_of(self.granularity),
        }
    }

    /// Cuts a piece. Returns `None` if the host has no memory left.
    pub(crate) fn allocate(&mut self, size: u64) -> Option<u64> {
        let size = rounded(size);
        if let Some(piece) = self.free.get_mut(&size).and_then(Vec::pop) {
            let base = self.block_of(piece).0;
            self.take_from(base);
            return Some(piece);
        }
        let whole = size.next_multiple_of(self.granularity);
        let find = |test: &dyn Fn(&Block) -> bool| {
            self.blocks
                .iter()
                .find(|(_, block)| test(block))
                .map(|(&base, _)| base)
        };
        let base = find(&|block| block.committed && block.cut + size <= block.size)
            .or_else(|| find(&|block| block.committed && block.has_room(size)))
            .or_else(|| find(&|block| !block.committed && block.size == whole));
        let base = match base {
            Some(base) => base,
            None => self.map_block(whole)?,
        };
        if self.blocks[&base].cut + size > self.blocks[&base].size {
            self.make_whole(base);
        }
        let block = self
            .blocks
            .get_mut(&base)
            .expect("the block was just found");
        let piece = base + block.cut;
        block.cut += size;
        self.take_from(base);
        Some(piece)
    }

    /// Takes back a piece. `observed` is false for a stream-ordered free.
    pub(crate) fn free(&mut self, piece: u64, size: u64, observed: bool) {
        let base = self.block_of(piece).0;
        let block = self
            .blocks
            .get_mut(&base)
            .expect("a live piece has a block");
        block.live -= 1;
        block.unobserved |= !observed;
        self.free.entry(rounded(size)).or_default().push(piece);
    }

    /// Must be called when the host has synchronised, and so observed every free so far.
    pub(crate) fn observe(&mut self) {
        for block in self.blocks.values_mut() {
            block.unobserved = false;
        }
    }

    /// Releases empty blocks until no more than `keep` bytes are reserved.
    pub(crate) fn trim(&mut self, keep: u64) {
        for (&base, block) in &mut self.blocks {
            if self.reserved <= keep {
                return;
            }
            if block.committed && block.live == 0 && !block.unobserved {
                block.committed = false;
                self.reserved -= block.size;
                // SAFETY: the range is a private anonymous mapping of this arena, and no piece of
                // it is live, so nobody may read its contents any longer.
                unsafe {
                    libc::madvise(
                        base as *mut libc::c_void,
                        block.size as usize,
                        libc::MADV_DONTNEED,
                    )
                };
            }
        }
    }

    fn take_from(&mut self, base: u64) {
        let block = self
            .blocks
            .get_mut(&base)
            .expect("the caller found this block");
        block.live += 1;
        if !block.committed {
            block.committed = true;
            self.reserved += block.size;
        }
    }

    fn make_whole(&mut self, base: u64) {
        let block = self
            .blocks
            .get_mut(&base)
            .expect("the caller found this block");
        block.cut = 0;
        let end = base + block.size;
        for pieces in self.free.values_mut() {
            pieces.retain(|&piece| piece < base || piece >= end);
        }
    }

    fn block_of(&self, piece: u64) -> (u64, &Block) {
        let (&base, block) = self
            .blocks
            .range(..=piece)
            .next_back()
            .expect("a piece lies in a block");
        (base, block)
    }

    /// Whether a piece at this address would lie in one of this arena's blocks.
    pub(crate) fn has(&self, piece: u64) -> bool {
        let block = self.blocks.range(..=piece).next_back();
        block.is_some_and(|(base, block)| piece - base < block.size)
    }

    fn map_block(&mut self, size: u64) -> Option<u64> {
        let base = match self.is_low {
            false => map(0, size)?,
            true => (LOWEST..1 << 32).step_by(1 << 24).find_map(|wanted| {
                let base = map(wanted, size)?;
                if base == wanted && base + size <= 1 << 32 {
                    return Some(base);
                }
                // SAFETY: the mapping was just made, and nothing refers to it.
                unsafe { libc::munmap(base as *mut libc::c_void, size as usize) };
                None
            })?,
        };
        self.blocks.insert(
            base,
            Block {
                size,
                cut: 0,
                live: 0,
                committed: false,
                unobserved: false,
            },
        );
        Some(base)
    }
}

impl Block {
    /// Whether there is room after the last piece, or in the whole block if none of its pieces is
    /// live.
    fn has_room(&self, size: u64) -> bool {
        self.cut + size <= self.size || (self.live == 0 && size <= self.size)
    }
}

/// Maps memory at this address if it is free, else elsewhere.
fn map(wanted: u64, size: u64) -> Option<u64> {
    // SAFETY: without `MAP_FIXED`, a new anonymous mapping overwrites nothing.
    let address = unsafe {
        libc::mmap(
            wanted as *mut libc::c_void,
            usize::try_from(size).ok()?,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    (address != libc::MAP_FAILED).then_some(address as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_freed_piece_is_the_next_of_its_size() {
        let mut arena = Arena::new(2 * MIB);
        let pieces: Vec<u64> = (0..4).map(|_| arena.allocate(100).unwrap()).collect();
        assert!(pieces.iter().all(|piece| piece % ALIGNMENT == 0));
        arena.free(pieces[1], 100, true);
        arena.free(pieces[2], 100, true);
        assert_eq!(arena.allocate(4), Some(pieces[2]));
        assert_eq!(arena.allocate(4), Some(pieces[1]));
    }

    #[test]
    fn one_byte_reserves_a_block_and_the_next_none() {
        let mut arena = Arena::new(2 * MIB);
        assert_eq!(arena.growth(1), 2 * MIB);
        arena.allocate(1).unwrap();
        assert_eq!((arena.growth(1), arena.reserved()), (0, 2 * MIB));
        arena.allocate(3 * MIB).unwrap();
        assert_eq!(arena.reserved(), 6 * MIB);
    }

    #[test]
    fn a_block_with_a_live_piece_or_an_unseen_free_is_not_trimmed() {
        let mut arena = Arena::new(32 * MIB);
        let (kept, gone) = (arena.allocate(1).unwrap(), arena.allocate(1).unwrap());
        arena.free(gone, 1, false);
        arena.observe();
        arena.trim(0);
        assert_eq!(arena.reserved(), 32 * MIB);
        arena.free(kept, 1, false);
        arena.trim(0);
        assert_eq!(arena.reserved(), 32 * MIB);
        arena.observe();
        arena.trim(0);
        assert_eq!(arena.reserved(), 0);
        assert_eq!(arena.allocate(1), Some(kept));
        assert_eq!(arena.reserved(), 32 * MIB);
    }

    #[test]
    fn an_empty_block_serves_pieces_of_another_size() {
        let mut arena = Arena::new(2 * MIB);
        let small: Vec<u64> = (0..4096).map(|_| arena.allocate(512).unwrap()).collect();
        small.iter().for_each(|&piece| arena.free(piece, 512, true));
        arena.allocate(MIB).unwrap();
        assert_eq!(arena.reserved(), 2 * MIB);
    }
}
