//! The caching allocator: which block serves a request, and what happens to freed blocks.
//!
//! It follows PyTorch's
//! [`CUDACachingAllocator`](https://github.com/pytorch/pytorch/blob/v2.11.0/c10/cuda/CUDACachingAllocator.cpp)
//! step by step, because `allocated` and `reserved` must equal PyTorch's at every step.

use super::block::{Block, BlockId, BlockState, Blocks, PoolIndex};
use super::pending::PendingFrees;
use super::pool::{Place, Pool};
use super::pool_id::PoolId;
use super::pools::Pools;
use super::size::{Policy, PoolKind, REQUEST_LIMIT};
use super::snapshot::Snapshot;
use super::source::{SegmentError, SegmentSource};
use super::tally::{StatFamily, Tallies};
use crate::error::{Error, Result};
use crate::stream::{Stream, StreamId};

/// One allocator's state, used by one thread at a time.
#[derive(Debug)]
pub(crate) struct Caching {
    source: Box<dyn SegmentSource>,
    policy: Policy,
    blocks: Blocks,
    pools: Pools,
    pending: PendingFrees,
    tallies: Tallies,
    limit: Option<usize>,
    /// The first error of a free, kept because `free` itself cannot return it.
    parked: Option<Error>,
}

/// A block that was handed out. The holder of this value owns the block.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) block: BlockId,
    pub(crate) address: u64,
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

    /// Hands out a block of at least `bytes`, which must not be 0, for work on `stream`. During a
    /// capture, the block comes from the graph's private pool, and pending frees are left alone,
    /// because the driver can neither query events nor free a segment then.
    #[inline]
    pub(crate) fn allocate(
        &mut self,
        bytes: usize,
        stream: StreamId,
        private: Option<PoolId>,
    ) -> Result<Allocation, SegmentError> {
        if private.is_none() && !self.pending.is_empty() {
            self.reclaim().map_err(SegmentError::Other)?;
        }
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

    /// Allocates a new segment and caches it as one block. If there is not enough memory, empties
    /// the cache and requests the segment again.
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
        self.tallies.segment_taken(kind, bytes);
        let id = self.blocks.insert(Block::segment(address, bytes, pool));
        Ok((self.pools[pool].insert(id, &self.blocks[id]), id))
    }

    fn take_segment(&self, bytes: usize) -> Result<u64, SegmentError> {
        let reserved = usize::try_from(self.reserved()).expect("bytes in address space");
        if reserved.saturating_add(bytes) > self.limit.unwrap_or(usize::MAX) {
            return Err(SegmentError::OutOfMemory);
        }
        self.source.allocate(bytes)
    }

    /// Hands out a cached block, after splitting off the part that is not needed.
    #[inline]
    fn hand_out(&mut self, place: Place, id: BlockId, size: usize, requested: usize) -> Allocation {
        let block = &self.blocks[id];
        let pool = &mut self.pools[block.pool];
        let kind = pool.kind;
        let before = block.split_part();
        let mut after = (0, 0);
        if self.policy == Policy::Caching && kind.splits_off(block.size - size) {
            let rest = self.blocks.split(id, size);
            after = (1, self.blocks[rest].size);
            pool.replace(place, rest, &self.blocks[rest]);
        } else {
            pool.remove(place);
        }
        self.tallies.split_changed(kind, before, after);

        let block = &mut self.blocks[id];
        block.state = BlockState::Allocated;
        block.requested = requested;
        let size = block.size;
        self.tallies.handed_out(kind, size, requested);
        Allocation {
            block: id,
            address: block.address,
        }
    }

    /// Records that work on `stream` uses a block. If the block is freed before that work is done,
    /// it is not reused until then.
    pub(crate) fn record_stream(&mut self, allocation: &Allocation, stream: &Stream) {
        let block = &mut self.blocks[allocation.block];
        let id = stream.id();
        if id == self.pools[block.pool].stream {
            return;
        }
        let users = &mut block.users.get_or_insert_default().0;
        if users.iter().all(|user| user.id() != id) {
            users.push(stream.clone());
            self.tallies.count_active();
        }
    }

    #[inline]
    pub(crate) fn free(&mut self, allocation: &Allocation) {
        let id = allocation.block;
        let block = &mut self.blocks[id];
        debug_assert_eq!(block.state, BlockState::Allocated);
        if let Some(users) = block.users.take() {
            self.wait_for(id, &users.0);
        }
        if self.blocks[id].events == 0 {
            self.retire(id);
        }
    }

    /// Makes a block wait for the work in the streams that use it, if there is any.
    #[cold]
    fn wait_for(&mut self, id: BlockId, users: &[Stream]) {
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
        let block = &mut self.blocks[id];
        if block.events > 0 {
            block.state = BlockState::AwaitingFree;
            self.tallies.freed(self.pools[block.pool].kind, block.size);
        }
    }

    fn park(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.parked.get_or_insert(error);
        }
    }

    /// Retires the freed blocks that other streams no longer use.
    #[cold]
    fn reclaim(&mut self) -> Result<()> {
        while let Some(id) = self.pending.next_done()? {
            self.pass_event(id);
        }
        Ok(())
    }

    #[cold]
    fn pass_event(&mut self, id: BlockId) {
        self.blocks[id].events -= 1;
        if self.blocks[id].events == 0 {
            self.retire(id);
        }
    }

    /// The size of a block in bytes, which may be larger than requested.
    #[inline]
    pub(crate) fn size(&self, allocation: &Allocation) -> usize {
        self.blocks[allocation.block].size
    }

    #[inline]
    pub(crate) fn has_handed_out(&self) -> bool {
        self.tallies.current(StatFamily::Allocation) > 0
    }

    /// Merges an unused block with its inactive neighbours, and caches it.
    #[inline]
    fn retire(&mut self, mut id: BlockId) {
        let block = &mut self.blocks[id];
        let state = std::mem::replace(&mut block.state, BlockState::Inactive);
        let (size, requested) = (block.size, std::mem::take(&mut block.requested));
        let (previous, next) = (block.previous, block.next);
        let pool = &mut self.pools[block.pool];
        let kind = pool.kind;
        if state == BlockState::Allocated {
            self.tallies.freed(kind, size);
        }
        self.tallies.retired(kind, size, requested);

        // The place of a cached neighbour, which the merged block takes over.
        let mut place = None;
        let mut joined = (0, 0);
        if let Some(next) = self.blocks.inactive(next) {
            let neighbour = &self.blocks[next];
            place = Some(pool.find(neighbour));
            joined = (1, neighbour.size);
            self.blocks.join_next(id);
        }
        if let Some(previous) = self.blocks.inactive(previous) {
            if let Some(next) = place {
                pool.remove(next);
            }
            let neighbour = &self.blocks[previous];
            place = Some(pool.find(neighbour));
            joined = (joined.0 + 1, joined.1 + neighbour.size);
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
        let after = block.split_part();
        self.tallies.split_changed(kind, joined, after);
        if self.policy == Policy::Direct {
            let released = self.release(id);
            self.park(released);
        }
    }

    /// Returns all cached segments to the layer below, after waiting for the blocks that other
    /// streams still use. Segments with a block in use and segments that belong to a graph stay.
    pub(crate) fn empty(&mut self) -> Result<()> {
        while let Some(id) = self.pending.wait_next()? {
            self.pass_event(id);
        }
        let mut outcome = self.take_parked();
        for id in self.pools.releasable() {
            if !self.blocks[id].is_split() {
                outcome = outcome.and(self.release(id));
            }
        }
        outcome
    }

    /// Returns one segment, which is a single inactive block, to the layer below.
    fn release(&mut self, id: BlockId) -> Result<()> {
        let block = &self.blocks[id];
        let size = block.size;
        self.source.free(block.address, size)?;
        let pool = &mut self.pools[block.pool];
        let (kind, private) = (pool.kind, pool.private);
        pool.remove(pool.find(block));
        self.blocks.remove(id);
        self.pools.segment_returned(private);
        self.tallies.segment_returned(kind, size);
        Ok(())
    }

    /// Bytes handed out and not freed.
    pub(crate) fn allocated(&self) -> u64 {
        self.tallies.current(StatFamily::AllocatedBytes)
    }

    /// Bytes held from the layer below.
    pub(crate) fn reserved(&self) -> u64 {
        self.tallies.current(StatFamily::ReservedBytes)
    }

    /// Opens a pool for the graph that is about to be captured.
    pub(crate) fn open_pool(&mut self) -> PoolId {
        self.pools.open()
    }

    /// Returns the memory of a dropped graph to the cache, except for blocks that are still handed
    /// out.
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

    /// Returns the first error of a free since the last call.
    pub(crate) fn take_parked(&mut self) -> Result<()> {
        self.parked.take().map_or(Ok(()), Err)
    }
}

impl Drop for Caching {
    /// Returns every segment. No block is in use when the allocator is dropped.
    fn drop(&mut self) {
        let _ = self.source.synchronize();
        let segments = self.blocks.iter().filter(|(_, b)| b.previous.is_none());
        let heads: Vec<_> = segments.map(|(id, _)| id).collect();
        for head in heads {
            let bytes = self.blocks.chain(head).map(|block| block.size).sum();
            // A destructor cannot return an error. The driver frees the rest with the context.
            let _ = self.source.free(self.blocks[head].address, bytes);
        }
    }
}
