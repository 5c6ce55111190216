//! The cached blocks: those that serve every request, and those that one graph keeps for itself.

use super::block::BlockId;
use super::pool::Pool;
use super::pool_id::PoolId;
use super::size::PoolKind;

/// Every pool of an allocator.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    shared: BySize,
    private: Vec<PrivatePool>,
    /// The private pool that was opened last.
    last: Option<PoolId>,
}

#[derive(Debug, Default)]
struct BySize {
    small: Pool,
    large: Pool,
}

impl BySize {
    fn of(&mut self, kind: PoolKind) -> &mut Pool {
        match kind {
            PoolKind::Small => &mut self.small,
            PoolKind::Large => &mut self.large,
        }
    }

    fn ids(&self) -> impl Iterator<Item = BlockId> {
        self.large.ids().chain(self.small.ids())
    }
}

/// Blocks that only one capture can get, because its graph reads and writes them at every replay,
/// whether or not they are handed out at that moment.
///
/// While the graph lives, its segments stay. After that `empty_cache` returns them too: PyTorch
/// calls it a freeable pool then. A pool whose tensors outlive the graph stays until they are
/// freed.
#[derive(Debug)]
struct PrivatePool {
    id: PoolId,
    blocks: BySize,
    segments: usize,
    in_use: bool,
}

impl Pools {
    /// A new private pool, in use.
    pub(crate) fn open(&mut self) -> PoolId {
        let id = self.last.map_or(PoolId::FIRST, PoolId::next);
        self.last = Some(id);
        self.private.push(PrivatePool {
            id,
            blocks: BySize::default(),
            segments: 0,
            in_use: true,
        });
        id
    }

    /// Must be called when no work that uses this pool will be replayed any more.
    pub(crate) fn close(&mut self, id: PoolId) {
        self.private_pool(id).in_use = false;
        self.forget_empty(id);
    }

    /// The cached blocks of one pool: the private one, or the shared.
    pub(crate) fn of(&mut self, private: Option<PoolId>, kind: PoolKind) -> &mut Pool {
        match private {
            None => self.shared.of(kind),
            Some(id) => self.private_pool(id).blocks.of(kind),
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

    /// The cached blocks that no graph relies on, the large ones of a pool first.
    pub(crate) fn releasable(&self) -> Vec<BlockId> {
        let freeable = self.private.iter().filter(|pool| !pool.in_use);
        let freeable = freeable.flat_map(|pool| pool.blocks.ids());
        self.shared.ids().chain(freeable).collect()
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
