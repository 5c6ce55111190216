//! The caching allocator: which block serves a request, and what happens to freed blocks.
//!
//! It follows PyTorch's
//! [`CUDACachingAllocator`](https://github.com/pytorch/pytorch/blob/v2.11.0/c10/cuda/CUDACachingAllocator.cpp)
//! step by step, because `allocated` and `reserved` must equal PyTorch's at every step.

use super::block::{Block, BlockId, BlockState, Blocks};
use super::pending::PendingFrees;
use super::pool::{Place, Pool};
use super::pool_id::PoolId;
use super::pools::{PoolIndex, Pools};
use super::size::{Policy, PoolKind, REQUEST_LIMIT};
use super::snapshot::Snapshot;
use super::source::{SegmentError, SegmentSource};
use super::tally::Tallies;
use crate::error::{Error, Result};
use crate::stream::{Stream, StreamId};

/// One allocator's state, for one thread at a time.
#[derive(Debug)]
pub(crate) struct Caching {
    source: Box<dyn SegmentSource>,
    policy: Policy,
    blocks: Blocks,
    pools: Pools,
    pending: PendingFrees,
    tallies: Tallies,
    limit: Option<usize>,
    /// The first error of a free, which itself cannot return one.
    parked: Option<Error>,
}

/// A block that was handed out. The holder of this value owns the block.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) block: BlockId,
    pub(crate) address: u64,
    pub(crate) size: usize,
    /// The private pool that it comes from.
    pub(crate) private: Option<PoolId>,
}

impl Caching {
    pub(crate) fn new(source: Box<dyn SegmentSource>, policy: Policy) -> Self {
        Self {
            source,
            policy,
            blocks: Blocks::default(),
            pools: Pools::default(),
            pending: PendingFrees::default(),
            tallies: Tallies::default(),
            limit: None,
            parked: None,
        }
    }

    /// Hands out a block of at least `bytes`, which must not be 0, for work on `stream`.
    #[inline]
    pub(crate) fn allocate(
        &mut self,
        bytes: usize,
        stream: StreamId,
    ) -> Result<Allocation, SegmentError> {
        self.reclaim().map_err(SegmentError::Other)?;
        self.allocate_from(None, bytes, stream)
    }

    /// Like [`Self::allocate`], from a private pool, while work for its graph is captured. During a
    /// capture the driver can neither query events nor free a segment.
    pub(crate) fn allocate_captured(
        &mut self,
        pool: PoolId,
        bytes: usize,
    ) -> Result<Allocation, SegmentError> {
        self.allocate_from(Some(pool), bytes, StreamId::default())
    }

    #[inline]
    fn allocate_from(
        &mut self,
        private: Option<PoolId>,
        bytes: usize,
        stream: StreamId,
    ) -> Result<Allocation, SegmentError> {
        if bytes > REQUEST_LIMIT {
            self.tallies.num_ooms += 1;
            return Err(SegmentError::OutOfMemory);
        }
        let size = self.policy.block(bytes);
        let pool = self.pools.serving(private, PoolKind::of(size), stream);
        let cached = match self.policy {
            Policy::Caching => self.pools[pool].best_fit(size),
            Policy::Direct => None,
        };
        let (place, block) = match cached {
            Some(found) => found,
            None => self.grow(size, pool)?,
        };
        Ok(self.hand_out(place, block, size, bytes))
    }

    /// Allocates a new segment and caches it as one block. If memory is short, the cache is emptied
    /// and the segment requested again.
    #[cold]
    fn grow(&mut self, size: usize, pool: PoolIndex) -> Result<(Place, BlockId), SegmentError> {
        let bytes = self.policy.segment(size);
        let Pool { kind, private, .. } = self.pools[pool];
        let address = match self.take_segment(bytes) {
            Err(SegmentError::OutOfMemory) if private.is_none() => {
                self.empty().map_err(SegmentError::Other)?;
                self.tallies.num_alloc_retries += 1;
                self.take_segment(bytes)
            }
            taken => taken,
        };
        if matches!(address, Err(SegmentError::OutOfMemory)) {
            self.tallies.num_ooms += 1;
        }
        let address = address?;
        self.pools.segment_taken(private);
        self.tallies.segment.increase(kind, 1);
        self.tallies.reserved_bytes.increase(kind, bytes);
        self.tallies.num_device_alloc += 1;
        let id = self.blocks.insert(Block::segment(address, bytes, pool));
        Ok((self.pools[pool].insert(id, &self.blocks[id]), id))
    }

    fn take_segment(&self, bytes: usize) -> Result<u64, SegmentError> {
        let room = self.limit.unwrap_or(usize::MAX);
        if self.reserved().saturating_add(bytes) > room {
            return Err(SegmentError::OutOfMemory);
        }
        self.source.allocate(bytes)
    }

    /// Hands out a cached block, after splitting off the part that is not needed.
    #[inline]
    fn hand_out(&mut self, place: Place, id: BlockId, size: usize, requested: usize) -> Allocation {
        let block = &self.blocks[id];
        let pool = &mut self.pools[block.pool];
        let (kind, private) = (pool.kind, pool.private);
        let was_piece = if block.is_split() { block.size } else { 0 };
        let mut left = 0;
        if self.policy == Policy::Caching && kind.splits_off(block.size - size) {
            let rest = self.blocks.split(id, size);
            left = self.blocks[rest].size;
            pool.replace(place, rest, &self.blocks[rest]);
        } else {
            pool.remove(place);
        }
        let pieces = (usize::from(was_piece > 0), usize::from(left > 0));
        self.tallies.inactive_split.change(kind, pieces.0, pieces.1);
        self.tallies
            .inactive_split_bytes
            .change(kind, was_piece, left);

        let block = &mut self.blocks[id];
        block.state = BlockState::Allocated;
        block.requested = requested;
        let size = block.size;
        self.tallies.allocation.increase(kind, 1);
        self.tallies.allocated_bytes.increase(kind, size);
        self.tallies.active.increase(kind, 1);
        self.tallies.active_bytes.increase(kind, size);
        self.tallies.requested_bytes.increase(kind, requested);
        Allocation {
            block: id,
            address: block.address,
            size,
            private,
        }
    }

    /// Notes that work on `stream` uses a block, which then outlives its free until that is done.
    pub(crate) fn record_stream(&mut self, allocation: &Allocation, stream: &Stream) {
        let block = &mut self.blocks[allocation.block];
        let id = stream.id();
        if id == self.pools[block.pool].stream {
            return;
        }
        let users = &mut block.users.get_or_insert_default().0;
        if users.iter().all(|user| user.id() != id) {
            users.push(stream.clone());
        }
    }

    /// Frees a block.
    #[inline]
    pub(crate) fn free(&mut self, allocation: Allocation) {
        let id = allocation.block;
        let block = &mut self.blocks[id];
        debug_assert_eq!(block.state, BlockState::Allocated);
        let (kind, size) = (self.pools[block.pool].kind, block.size);
        let users = block.users.take();
        self.tallies.allocation.decrease(kind, 1);
        self.tallies.allocated_bytes.decrease(kind, size);
        if users.is_some_and(|users| self.waits_for(id, &users.0)) {
            self.blocks[id].state = BlockState::AwaitingFree;
        } else {
            self.retire(id);
        }
    }

    /// Records the end of the users' work so far. Returns whether there is anything to wait for.
    #[cold]
    fn waits_for(&mut self, id: BlockId, users: &[Stream]) -> bool {
        for stream in users {
            match self.source.record(stream) {
                Ok(event) => {
                    self.pending.push(stream.id(), event, id);
                    self.blocks[id].events += 1;
                }
                // Without an event to wait for, wait for everything.
                Err(_) => self.park(self.source.synchronize()),
            }
        }
        self.blocks[id].events > 0
    }

    fn park(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.parked.get_or_insert(error);
        }
    }

    /// Frees the blocks that other streams no longer use.
    #[inline]
    fn reclaim(&mut self) -> Result<()> {
        while !self.pending.is_empty()
            && let Some(id) = self.pending.next_done()?
        {
            self.pass_event(id);
        }
        Ok(())
    }

    fn pass_event(&mut self, id: BlockId) {
        self.blocks[id].events -= 1;
        if self.blocks[id].events == 0 {
            self.retire(id);
        }
    }

    /// Merges an unused block with its inactive neighbours, and caches it.
    #[inline]
    fn retire(&mut self, mut id: BlockId) {
        let block = &mut self.blocks[id];
        block.state = BlockState::Inactive;
        let (size, requested) = (block.size, std::mem::take(&mut block.requested));
        let (previous, next) = (block.previous, block.next);
        let pool = &mut self.pools[block.pool];
        let kind = pool.kind;
        self.tallies.active.decrease(kind, 1);
        self.tallies.active_bytes.decrease(kind, size);
        self.tallies.requested_bytes.decrease(kind, requested);

        // Where a neighbour was cached.
        let mut place = None;
        let (mut joined, mut joined_bytes) = (0, 0);
        if let Some(next) = self.blocks.inactive(next) {
            let neighbour = &self.blocks[next];
            place = Some(pool.find(neighbour));
            (joined, joined_bytes) = (1, neighbour.size);
            self.blocks.join_next(id);
        }
        if let Some(previous) = self.blocks.inactive(previous) {
            if let Some(next) = place {
                pool.remove(next);
            }
            let neighbour = &self.blocks[previous];
            place = Some(pool.find(neighbour));
            (joined, joined_bytes) = (joined + 1, joined_bytes + neighbour.size);
            self.blocks.join_next(previous);
            id = previous;
        }
        let block = &self.blocks[id];
        match place {
            Some(place) => pool.replace(place, id, block),
            None => {
                pool.insert(id, block);
            }
        }
        let (pieces, piece_bytes) = if block.is_split() {
            (1, block.size)
        } else {
            (0, 0)
        };
        self.tallies.inactive_split.change(kind, joined, pieces);
        self.tallies
            .inactive_split_bytes
            .change(kind, joined_bytes, piece_bytes);
        if self.policy == Policy::Direct {
            let released = self.release(id);
            self.park(released);
        }
    }

    /// Returns all cached segments to the layer below, after waiting for the blocks that other
    /// streams still use. A segment with a block in use stays, and so does one that belongs to a
    /// graph.
    pub(crate) fn empty(&mut self) -> Result<()> {
        while let Some(id) = self.pending.wait_next()? {
            self.pass_event(id);
        }
        let mut outcome = self.parked.take().map_or(Ok(()), Err);
        for id in self.pools.releasable() {
            if !self.blocks[id].is_split() {
                outcome = outcome.and(self.release(id));
            }
        }
        outcome
    }

    /// Returns one wholly inactive segment.
    fn release(&mut self, id: BlockId) -> Result<()> {
        let block = &self.blocks[id];
        let size = block.size;
        self.source.free(block.address, size)?;
        let pool = &mut self.pools[block.pool];
        let (kind, private) = (pool.kind, pool.private);
        pool.remove(pool.find(block));
        self.blocks.remove(id);
        self.pools.segment_returned(private);
        self.tallies.segment.decrease(kind, 1);
        self.tallies.reserved_bytes.decrease(kind, size);
        self.tallies.num_device_free += 1;
        Ok(())
    }

    fn reserved(&self) -> usize {
        usize::try_from(self.tallies.reserved_bytes.current()).expect("bytes in address space")
    }

    /// Opens a pool for the graph that is about to be captured.
    pub(crate) fn open_pool(&mut self) -> PoolId {
        self.pools.open()
    }

    /// Returns the memory of a dropped graph to the cache, except for what is still handed out.
    pub(crate) fn close_pool(&mut self, id: PoolId) {
        self.pools.close(id);
    }

    pub(crate) fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    pub(crate) fn tallies_mut(&mut self) -> &mut Tallies {
        &mut self.tallies
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.blocks.snapshot(&self.pools)
    }

    pub(crate) fn source(&self) -> &dyn SegmentSource {
        &*self.source
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
    /// Returns every segment: no block is in use when the allocator is dropped.
    fn drop(&mut self) {
        let _ = self.source.synchronize();
        let segments = self.blocks.iter().filter(|(_, b)| b.previous.is_none());
        let heads: Vec<_> = segments.map(|(id, _)| id).collect();
        for head in heads {
            let bytes = self.blocks.chain(head).map(|block| block.size).sum();
            // A destructor cannot return an error. The driver frees the rest with its context.
            let _ = self.source.free(self.blocks[head].address, bytes);
        }
    }
}
