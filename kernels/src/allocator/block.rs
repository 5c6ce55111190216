//! Blocks, the pieces of segments, in a table that never shrinks.

use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

use super::pool_id::PoolId;
use super::size::PoolKind;
use crate::stream::{Stream, StreamId};

/// A block's place in the table. 1 is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockId(NonZeroU32);

impl BlockId {
    /// Sorts before all others.
    pub(crate) const FIRST: Self = Self(NonZeroU32::MIN);

    fn at(index: usize) -> Self {
        let number = u32::try_from(index + 1).expect("fewer than 2^32 blocks");
        Self(NonZeroU32::new(number).expect("one more than an index"))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// What a block is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// Handed out.
    Allocated,
    /// Freed, but another stream still uses it.
    AwaitingFree,
    /// Cached.
    Inactive,
}

/// A part of a segment.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) address: u64,
    pub(crate) size: usize,
    /// The requested bytes; 0 while inactive.
    pub(crate) requested: usize,
    pub(crate) stream: StreamId,
    pub(crate) pool: PoolKind,
    /// The private pool that it belongs to; none for the shared one.
    pub(crate) private: Option<PoolId>,
    pub(crate) state: BlockState,
    /// The neighbours in the segment.
    pub(crate) previous: Option<BlockId>,
    pub(crate) next: Option<BlockId>,
    /// Other streams that use it while it is handed out. In a box, because few blocks have any: so
    /// a block fits into one cache line.
    pub(crate) users: Option<Box<Users>>,
    /// The events in those streams that it waits for.
    pub(crate) events: u32,
}

/// The streams that use a block beside its own.
#[derive(Debug, Default)]
pub(crate) struct Users(pub(crate) Vec<Stream>);

const _: () = assert!(size_of::<Option<Block>>() <= 64);

impl Block {
    /// A whole new segment.
    pub(crate) fn segment(
        address: u64,
        size: usize,
        stream: StreamId,
        pool: PoolKind,
        private: Option<PoolId>,
    ) -> Self {
        Self {
            address,
            size,
            requested: 0,
            stream,
            pool,
            private,
            state: BlockState::Inactive,
            previous: None,
            next: None,
            users: None,
            events: 0,
        }
    }

    /// Whether it shares its segment with others.
    pub(crate) fn is_split(&self) -> bool {
        self.previous.is_some() || self.next.is_some()
    }
}

/// All blocks of an allocator. The slots of removed blocks are used again, so that a steady state
/// allocates no host memory.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    slots: Vec<Option<Block>>,
    vacant: Vec<BlockId>,
}

impl Blocks {
    pub(crate) fn insert(&mut self, block: Block) -> BlockId {
        if let Some(id) = self.vacant.pop() {
            self.slots[id.index()] = Some(block);
            return id;
        }
        self.grow(block)
    }

    #[cold]
    fn grow(&mut self, block: Block) -> BlockId {
        self.slots.push(Some(block));
        BlockId::at(self.slots.len() - 1)
    }

    pub(crate) fn remove(&mut self, id: BlockId) -> Block {
        self.vacant.push(id);
        self.slots[id.index()].take().expect("a live block")
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(index, slot)| Some((BlockId::at(index), slot.as_ref()?)))
    }
}

impl Index<BlockId> for Blocks {
    type Output = Block;

    fn index(&self, id: BlockId) -> &Block {
        self.slots[id.index()].as_ref().expect("a live block")
    }
}

impl IndexMut<BlockId> for Blocks {
    fn index_mut(&mut self, id: BlockId) -> &mut Block {
        self.slots[id.index()].as_mut().expect("a live block")
    }
}
