//! The resources that a graph keeps for its replays: its own pool, and the storages that its work
//! uses.

use std::fmt;
use std::sync::{Arc, Weak};

use crate::allocator::PoolId;
use crate::compute::{Operand, Storage};
use crate::device::Device;

/// The storages that a graph's work reads and writes.
#[derive(Default)]
pub(super) struct UsedStorages {
    /// Storages from outside the graph's own pool, kept alive as long as the graph.
    held: Vec<Arc<Storage>>,
    /// Storages that each replay writes.
    written: Vec<Weak<Storage>>,
}

impl UsedStorages {
    /// Records the operands of an operation; `pool` is the graph's own pool.
    pub(super) fn note(&mut self, reads: &[Operand<'_>], writes: &[Operand<'_>], pool: PoolId) {
        for operand in reads.iter().chain(writes) {
            if operand.storage.pool() != Some(pool) {
                add(&mut self.held, operand.storage, Arc::ptr_eq);
            }
        }
        for operand in writes {
            let written = Arc::downgrade(operand.storage);
            add(&mut self.written, &written, Weak::ptr_eq);
        }
    }

    /// Forgets the storages that the captured closure has dropped, because nothing can read them
    /// any more.
    pub(super) fn forget_dropped(&mut self) {
        self.written.retain(|storage| storage.strong_count() > 0);
    }

    /// Must be called after a replay, so that a backward pass fails if it needs contents that were
    /// saved before the replay.
    pub(super) fn bump_versions(&self) {
        for storage in self.written.iter().filter_map(Weak::upgrade) {
            storage.bump_version();
        }
    }
}

impl fmt::Debug for UsedStorages {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} held, {} written",
            self.held.len(),
            self.written.len()
        )
    }
}

fn add<T: Clone>(list: &mut Vec<T>, item: &T, same: impl Fn(&T, &T) -> bool) {
    if !list.iter().any(|other| same(other, item)) {
        list.push(item.clone());
    }
}

/// A private pool, kept open for as long as work that uses it may be replayed.
#[derive(Debug)]
pub(super) struct PoolUse {
    device: Device,
    id: PoolId,
}

impl PoolUse {
    pub(super) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            id: device.allocator().lock().open_pool(),
        }
    }

    pub(super) fn id(&self) -> PoolId {
        self.id
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }
}

impl Drop for PoolUse {
    fn drop(&mut self) {
        self.device.allocator().lock().close_pool(self.id);
    }
}
