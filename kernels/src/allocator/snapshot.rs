//! An allocator's segments and the blocks in them, at one instant.

use super::block::{Block, BlockId, BlockState, Blocks};
use super::pool::Pool;
use super::pool_id::PoolId;
use super::pools::Pools;
use super::size::PoolKind;
use crate::stream::StreamId;

/// All segments, ordered by address, in the form of PyTorch's
/// [memory snapshot](https://docs.pytorch.org/docs/stable/torch_cuda_memory.html).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The segments.
    pub segments: Vec<SegmentInfo>,
}

/// A segment: the memory that one request to the layer below returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The address of the segment's first byte.
    pub address: u64,
    /// The size of the segment in bytes.
    pub total_size: u64,
    /// The stream that the segment's blocks serve.
    pub stream: StreamId,
    /// The pool to which the segment's blocks belong.
    pub pool: PoolKind,
    /// The private pool that the segment belongs to, if it is a graph's segment.
    pub private_pool: Option<PoolId>,
    /// The total bytes of the blocks that are handed out.
    pub allocated_size: u64,
    /// The total bytes of these blocks and of the freed blocks that another stream still uses.
    pub active_size: u64,
    /// The total requested bytes of the active blocks.
    pub requested_size: u64,
    /// The blocks of the segment, ordered by address. They are adjacent and fill the segment.
    pub blocks: Vec<BlockInfo>,
}

/// A block in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// The address of the block's first byte.
    pub address: u64,
    /// The size of the block in bytes.
    pub size: u64,
    /// The requested size in bytes; 0 when the block is inactive.
    pub requested_size: u64,
    /// The state of the block.
    pub state: BlockState,
}

impl Blocks {
    pub(crate) fn snapshot(&self, pools: &Pools) -> Snapshot {
        let heads = self.iter().filter(|(_, block)| block.previous.is_none());
        let mut segments: Vec<_> = heads
            .map(|(head, block)| self.segment_info(head, block, &pools[block.pool]))
            .collect();
        segments.sort_unstable_by_key(|segment| segment.address);
        Snapshot { segments }
    }

    /// The blocks of a segment, beginning with its first block, `head`.
    pub(crate) fn chain(&self, head: BlockId) -> impl Iterator<Item = &Block> {
        std::iter::successors(Some(&self[head]), |block| Some(&self[block.next?]))
    }

    fn segment_info(&self, head: BlockId, first: &Block, pool: &Pool) -> SegmentInfo {
        let blocks: Vec<_> = self.chain(head).map(Block::info).collect();
        let sum = |of: fn(&BlockInfo) -> u64| blocks.iter().map(of).sum();
        SegmentInfo {
            address: first.address,
            total_size: sum(|block| block.size),
            stream: pool.stream,
            pool: pool.kind,
            private_pool: pool.private,
            allocated_size: sum(|block| match block.state {
                BlockState::Allocated => block.size,
                BlockState::AwaitingFree | BlockState::Inactive => 0,
            }),
            active_size: sum(|block| match block.state {
                BlockState::Allocated | BlockState::AwaitingFree => block.size,
                BlockState::Inactive => 0,
            }),
            requested_size: sum(|block| block.requested_size),
            blocks,
        }
    }
}

impl Block {
    fn info(&self) -> BlockInfo {
        BlockInfo {
            address: self.address,
            size: self.size as u64,
            requested_size: self.requested as u64,
            state: self.state,
        }
    }
}
