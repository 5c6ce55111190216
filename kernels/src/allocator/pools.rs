//! The cached blocks: those that can serve any request, and those that one graph keeps for itself.

use super::block::{BlockId, PoolIndex};
use super::pool::Pool;
use super::pool_id::PoolId;
use super::size::PoolKind;
use crate::stream::StreamId;

/// Every pool of an allocator.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    /// All pools. The entries of a private pool that no longer exists are reused.
    all: Vec<Pool>,
    private: Vec<PrivatePool>,
    /// The private pool that was opened last.
    last: Option<PoolId>,
}

/// Blocks reserved for the graph of one capture. Each replay reads and writes these blocks, whether
/// or not they are handed out at that moment.
///
/// The pool's segments are kept for as long as the graph exists. After that, `empty_cache` gives
/// those without live tensors back to the driver as well; PyTorch calls such a pool *freeable*. A
/// pool whose tensors outlive the graph exists until the tensors are freed.
#[derive(Debug)]
struct PrivatePool {
    id: PoolId,
    segments: usize,
    in_use: bool,
}

impl Pools {
    /// Opens a new private pool, which is in use from now on.
    pub(crate) fn open(&mut self) -> PoolId {
        let id = self.last.map_or(PoolId::FIRST, PoolId::next);
        self.last = Some(id);
        self.private.push(PrivatePool {
            id,
            segments: 0,
            in_use: true,
        });
        id
    }

    /// Marks a private pool as unused. Must be called when no work that uses the pool will be
    /// replayed.
    pub(crate) fn close(&mut self, id: PoolId) {
        self.private_pool(id).in_use = false;
        self.forget_empty(id);
    }

    /// The pool for requests of this kind, within a private pool or the shared one.
    #[inline]
    pub(crate) fn serving(
        &mut self,
        private: Option<PoolId>,
        kind: PoolKind,
        stream: StreamId,
    ) -> PoolIndex {
        let serves =
            |pool: &Pool| pool.stream == stream && pool.kind == kind && pool.private == private;
        let index = self.all.iter().position(serves);
        PoolIndex(index.unwrap_or_else(|| self.add(private, kind, stream)))
    }

    #[cold]
    fn add(&mut self, private: Option<PoolId>, kind: PoolKind, stream: StreamId) -> usize {
        let new = Pool::new(private, kind, stream);
        let forgotten = |pool: &Pool| {
            let known = |id| self.private.iter().any(|private| private.id == id);
            pool.private.is_some_and(|id| !known(id))
        };
        match self.all.iter().position(forgotten) {
            Some(index) => {
                self.all[index] = new;
                index
            }
            None => {
                self.all.push(new);
                self.all.len() - 1
            }
        }
    }

    pub(crate) fn segment_taken(&mut self, private: Option<PoolId>) {
        if let Some(id) = private {
            self.private_pool(id).segments += 1;
        }
    }

    pub(crate) fn segment_returned(&mut self, private: Option<PoolId>) {
        if let Some(id) = private {
            self.private_pool(id).segments -= 1;
            self.forget_empty(id);
        }
    }

    /// The cached blocks that no graph relies on: those of the shared pool first, and within each
    /// pool the large ones first.
    pub(crate) fn releasable(&self) -> Vec<BlockId> {
        let in_use = |id| self.private.iter().any(|pool| pool.id == id && pool.in_use);
        let pools = self.all.iter();
        let mut pools: Vec<_> = pools
            .filter(|pool| !pool.private.is_some_and(in_use))
            .collect();
        pools.sort_by_key(|pool| (pool.private, pool.kind == PoolKind::Small));
        pools.into_iter().flat_map(Pool::ids).collect()
    }

    fn private_pool(&mut self, id: PoolId) -> &mut PrivatePool {
        let found = self.private.iter_mut().find(|pool| pool.id == id);
        found.expect("a pool lives as long as its graph and its segments")
    }

    fn forget_empty(&mut self, id: PoolId) {
        self.private
            .retain(|pool| pool.id != id || pool.in_use || pool.segments > 0);
    }
}

indexed!(Pools, |this, index: PoolIndex| -> Pool {
    this.all[index.0]
});
