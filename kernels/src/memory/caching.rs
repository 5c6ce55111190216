//! The caching allocator: which block serves a request, and what becomes of freed ones.
//!
//! It follows PyTorch's
//! [`CUDACachingAllocator`](https://github.com/pytorch/pytorch/blob/v2.11.0/c10/cuda/CUDACachingAllocator.cpp)
//! step by step, because `allocated` and `reserved` are to be PyTorch's at every step.

use super::block::{Block, BlockId, BlockState, Blocks};
use super::pending::Pending;
use super::pool::Pool;
use super::size::{Policy, PoolKind, REQUEST_LIMIT};
use super::stats::Stats;
use super::storage::{Storage, StorageError};
use super::stream::{Stream, StreamId};
use crate::error::{Error, Result};

/// One allocator's state, for one thread at a time.
#[derive(Debug)]
pub(crate) struct Caching {
    storage: Box<dyn Storage>,
    policy: Policy,
    blocks: Blocks,
    pools: Pools,
    pending: Pending,
    stats: Stats,
    limit: Option<usize>,
    /// An error of a free, which has nobody to return it to.
    parked: Option<Error>,
}

#[derive(Debug, Default)]
struct Pools {
    small: Pool,
    large: Pool,
}

impl Pools {
    fn of(&mut self, kind: PoolKind) -> &mut Pool {
        match kind {
            PoolKind::Small => &mut self.small,
            PoolKind::Large => &mut self.large,
        }
    }
}

/// A block that was handed out. Whoever has it owns the block.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) block: BlockId,
    pub(crate) address: u64,
    pub(crate) size: usize,
}

impl Caching {
    pub(crate) fn new(storage: Box<dyn Storage>, policy: Policy) -> Self {
        Self {
            storage,
            policy,
            blocks: Blocks::default(),
            pools: Pools::default(),
            pending: Pending::default(),
            stats: Stats::default(),
            limit: None,
            parked: None,
        }
    }

    /// Hands out a block of at least `bytes`, which must not be 0, for work on `stream`.
    pub(crate) fn allocate(
        &mut self,
        bytes: usize,
        stream: StreamId,
    ) -> Result<Allocation, StorageError> {
        if bytes > REQUEST_LIMIT {
            self.stats.num_ooms += 1;
            return Err(StorageError::OutOfMemory);
        }
        self.reclaim().map_err(StorageError::Other)?;
        let size = self.policy.block(bytes);
        let kind = PoolKind::of(size);
        let cached = match self.policy {
            Policy::Caching => self.pools.of(kind).take_best_fit(stream, size),
            Policy::Direct => None,
        };
        let block = match cached {
            Some(block) => block,
            None => self.grow(size, stream, kind)?,
        };
        Ok(self.hand_out(block, size, bytes))
    }

    /// A new segment as one block, in no pool. Out of memory, the cache is emptied and the
    /// segment asked for once more.
    fn grow(
        &mut self,
        size: usize,
        stream: StreamId,
        kind: PoolKind,
    ) -> Result<BlockId, StorageError> {
        let bytes = self.policy.segment(size);
        let address = match self.take_segment(bytes) {
            Err(StorageError::OutOfMemory) => {
                self.empty().map_err(StorageError::Other)?;
                self.stats.num_alloc_retries += 1;
                let retried = self.take_segment(bytes);
                if matches!(retried, Err(StorageError::OutOfMemory)) {
                    self.stats.num_ooms += 1;
                }
                retried?
            }
            taken => taken?,
        };
        self.stats.segment.increase(kind, 1);
        self.stats.reserved_bytes.increase(kind, bytes);
        self.stats.num_device_alloc += 1;
        let segment = Block::segment(address, bytes, stream, kind);
        Ok(self.blocks.insert(segment))
    }

    fn take_segment(&self, bytes: usize) -> Result<u64, StorageError> {
        let room = self.limit.unwrap_or(usize::MAX);
        if self.reserved().saturating_add(bytes) > room {
            return Err(StorageError::OutOfMemory);
        }
        self.storage.allocate(bytes)
    }

    /// Marks a block as handed out, after cutting off what is not needed of it.
    fn hand_out(&mut self, id: BlockId, size: usize, requested: usize) -> Allocation {
        let block = &self.blocks[id];
        let kind = block.pool;
        let was_piece = if block.is_split() { block.size } else { 0 };
        let mut left = 0;
        if self.policy == Policy::Caching && kind.splits_off(block.size - size) {
            let rest = self.blocks.split(id, size);
            left = self.blocks[rest].size;
            self.pools.of(kind).insert(rest, &self.blocks[rest]);
        }
        let pieces = (usize::from(was_piece > 0), usize::from(left > 0));
        self.stats.inactive_split.change(kind, pieces.0, pieces.1);
        self.stats
            .inactive_split_bytes
            .change(kind, was_piece, left);

        let block = &mut self.blocks[id];
        block.state = BlockState::Allocated;
        block.requested = requested;
        let size = block.size;
        self.stats.allocation.increase(kind, 1);
        self.stats.allocated_bytes.increase(kind, size);
        self.stats.active.increase(kind, 1);
        self.stats.active_bytes.increase(kind, size);
        self.stats.requested_bytes.increase(kind, requested);
        Allocation {
            block: id,
            address: block.address,
            size,
        }
    }

    /// Notes that work on `stream` uses a block, which then outlives its free until that is done.
    pub(crate) fn record_stream(&mut self, allocation: &Allocation, stream: &Stream) {
        let block = &mut self.blocks[allocation.block];
        let id = stream.id();
        if id != block.stream && block.users.iter().all(|user| user.id() != id) {
            block.users.push(stream.clone());
        }
    }

    /// Takes a block back.
    pub(crate) fn free(&mut self, allocation: Allocation) {
        let id = allocation.block;
        let block = &mut self.blocks[id];
        debug_assert_eq!(block.state, BlockState::Allocated);
        let (kind, size) = (block.pool, block.size);
        let users = std::mem::take(&mut block.users);
        self.stats.allocation.decrease(kind, 1);
        self.stats.allocated_bytes.decrease(kind, size);
        if self.marked(id, &users) {
            self.blocks[id].state = BlockState::AwaitingFree;
        } else {
            self.retire(id);
        }
    }

    /// Marks the end of the users' work so far. Whether there is anything to wait for.
    fn marked(&mut self, id: BlockId, users: &[Stream]) -> bool {
        for stream in users {
            match self.storage.record(stream) {
                Ok(event) => {
                    self.pending.push(stream.id(), event, id);
                    self.blocks[id].marks += 1;
                }
                // Without a mark to wait for, wait for everything.
                Err(_) => self.park(self.storage.synchronize()),
            }
        }
        self.blocks[id].marks > 0
    }

    fn park(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.parked.get_or_insert(error);
        }
    }

    /// Takes back the blocks that other streams are done with.
    fn reclaim(&mut self) -> Result<()> {
        while !self.pending.is_empty()
            && let Some(id) = self.pending.next_done()?
        {
            self.pass_mark(id);
        }
        Ok(())
    }

    fn pass_mark(&mut self, id: BlockId) {
        self.blocks[id].marks -= 1;
        if self.blocks[id].marks == 0 {
            self.retire(id);
        }
    }

    /// A block that nobody uses any more joins its inactive neighbours and goes to its pool.
    fn retire(&mut self, mut id: BlockId) {
        let block = &mut self.blocks[id];
        block.state = BlockState::Inactive;
        let kind = block.pool;
        let (size, requested) = (block.size, std::mem::take(&mut block.requested));
        let (previous, next) = (block.previous, block.next);
        self.stats.active.decrease(kind, 1);
        self.stats.active_bytes.decrease(kind, size);
        self.stats.requested_bytes.decrease(kind, requested);

        let pool = self.pools.of(kind);
        let (mut joined, mut joined_bytes) = (0, 0);
        if let Some(next) = self.blocks.inactive(next) {
            let neighbour = &self.blocks[next];
            pool.remove(next, neighbour);
            (joined, joined_bytes) = (1, neighbour.size);
            self.blocks.join_next(id);
        }
        if let Some(previous) = self.blocks.inactive(previous) {
            let neighbour = &self.blocks[previous];
            pool.remove(previous, neighbour);
            (joined, joined_bytes) = (joined + 1, joined_bytes + neighbour.size);
            self.blocks.join_next(previous);
            id = previous;
        }
        let block = &self.blocks[id];
        pool.insert(id, block);
        let (pieces, piece_bytes) = if block.is_split() {
            (1, block.size)
        } else {
            (0, 0)
        };
        self.stats.inactive_split.change(kind, joined, pieces);
        self.stats
            .inactive_split_bytes
            .change(kind, joined_bytes, piece_bytes);
        if self.policy == Policy::Direct {
            let released = self.release(id);
            self.park(released);
        }
    }

    /// Gives all cached segments back to the layer below, after waiting for the blocks that other
    /// streams still use. A segment with a block in use stays.
    pub(crate) fn empty(&mut self) -> Result<()> {
        while let Some(id) = self.pending.wait_next()? {
            self.pass_mark(id);
        }
        let mut outcome = self.parked.take().map_or(Ok(()), Err);
        for kind in [PoolKind::Large, PoolKind::Small] {
            for id in self.pools.of(kind).ids() {
                if !self.blocks[id].is_split() {
                    outcome = outcome.and(self.release(id));
                }
            }
        }
        outcome
    }

    /// Gives one whole inactive segment back.
    fn release(&mut self, id: BlockId) -> Result<()> {
        let block = &self.blocks[id];
        let (kind, size) = (block.pool, block.size);
        self.storage.free(block.address, size)?;
        self.pools.of(kind).remove(id, block);
        self.blocks.remove(id);
        self.stats.segment.decrease(kind, 1);
        self.stats.reserved_bytes.decrease(kind, size);
        self.stats.num_device_free += 1;
        Ok(())
    }

    fn reserved(&self) -> usize {
        usize::try_from(self.stats.reserved_bytes.all.current).expect("bytes in address space")
    }

    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    pub(crate) fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
    }

    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    pub(crate) fn limit(&self) -> Option<usize> {
        self.limit
    }

    pub(crate) fn set_limit(&mut self, limit: Option<usize>) {
        self.limit = limit;
    }

    /// The first error of a free since the last call.
    pub(crate) fn take_parked(&mut self) -> Result<()> {
        self.parked.take().map_or(Ok(()), Err)
    }
}

impl Drop for Caching {
    /// Every segment goes back: whoever drops the allocator has no blocks of it left.
    fn drop(&mut self) {
        let _ = self.storage.synchronize();
        let segments = self.blocks.iter().filter(|(_, b)| b.previous.is_none());
        let heads: Vec<_> = segments.map(|(id, _)| id).collect();
        for head in heads {
            let bytes = self.blocks.chain(head).map(|block| block.size).sum();
            // A destructor has nobody to tell. The driver frees the rest with its context.
            let _ = self.storage.free(self.blocks[head].address, bytes);
        }
    }
}
