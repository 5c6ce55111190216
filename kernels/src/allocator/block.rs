//! The table of blocks, which never shrinks. A block is part of a segment.

use std::num::NonZeroU32;

use crate::stream::Stream;

/// A block's place in the table, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockId(NonZeroU32);

impl BlockId {
    fn at(index: usize) -> Self {
        let number = u32::try_from(index + 1).expect("fewer than 2^32 blocks");
        Self(NonZeroU32::new(number).expect("one more than an index"))
    }

    #[inline]
    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// The index of the pool that a block belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PoolIndex(pub(super) usize);

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// Handed out.
    Allocated,
    /// Freed, but another stream still uses it.
    AwaitingFree,
    /// Cached.
    Inactive,
}

/// A part of a segment, in its own cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) size: usize,
    /// The requested size in bytes; 0 while the block is inactive.
    pub(crate) requested: usize,
    pub(crate) pool: PoolIndex,
    pub(crate) state: BlockState,
    /// The blocks before and after this one in the segment.
    pub(crate) previous: Option<BlockId>,
    pub(crate) next: Option<BlockId>,
    /// Other streams that use the block while it is handed out. Boxed, because few blocks have any.
    pub(crate) users: Option<Box<Users>>,
    /// The number of events in those streams that the block still waits for.
    pub(crate) events: u32,
}

/// The streams that use a block in addition to its own stream.
#[derive(Debug, Default)]
pub(crate) struct Users(pub(crate) Vec<Stream>);

const _: () = assert!(size_of::<Block>() == 64);

impl Block {
    /// Creates the block that fills a new segment.
    #[inline]
    pub(crate) fn segment(address: u64, size: usize, pool: PoolIndex) -> Self {
        Self {
            address,
            size,
            requested: 0,
            pool,
            state: BlockState::Inactive,
            previous: None,
            next: None,
            users: None,
            events: 0,
        }
    }

    /// Returns how much an inactive block adds to the figures of split segments: one block and its
    /// bytes, or nothing if the block fills its segment.
    #[inline]
    pub(crate) fn split_part(&self) -> (usize, usize) {
        if self.is_split() {
            (1, self.size)
        } else {
            (0, 0)
        }
    }

    /// Whether the block shares its segment with other blocks.
    #[inline]
    pub(crate) fn is_split(&self) -> bool {
        self.previous.is_some() || self.next.is_some()
    }
}

/// All blocks of an allocator. The slots of removed blocks are reused, so that no host memory is
/// allocated in the steady state.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    slots: Vec<Block>,
    /// The first vacant slot. Its block has no bytes and refers to the next vacant slot.
    vacant: Option<BlockId>,
}

impl Blocks {
    #[inline]
    pub(crate) fn insert(&mut self, block: Block) -> BlockId {
        let id = self.take_vacant();
        self[id] = block;
        id
    }

    /// Returns a vacant slot, in which the caller must store a new block.
    #[inline]
    pub(crate) fn take_vacant(&mut self) -> BlockId {
        let id = self.vacant.unwrap_or_else(|| self.grow());
        self.vacant = self[id].next;
        id
    }

    #[cold]
    fn grow(&mut self) -> BlockId {
        self.slots.push(Block::segment(0, 0, PoolIndex::default()));
        BlockId::at(self.slots.len() - 1)
    }

    #[inline]
    pub(crate) fn remove(&mut self, id: BlockId) {
        let vacant = self.vacant.replace(id);
        let slot = &mut self[id];
        (slot.size, slot.next) = (0, vacant);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        let slots = self.slots.iter().enumerate();
        let blocks = slots.filter(|(_, block)| block.size > 0);
        blocks.map(|(index, block)| (BlockId::at(index), block))
    }
}

indexed!(Blocks, |this, id: BlockId| -> Block {
    this.slots[id.index()]
});
