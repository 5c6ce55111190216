//! The contents of pools. When a pool is destroyed or reset, its descriptor sets or command buffers
//! end, although the call does not name them.

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::ledger::event::ContextUid;
use crate::sync::{Mutex, locked};

type Pool = (ContextUid, u64);

static CHILDREN: Mutex<FxHashMap<Pool, FxHashSet<u64>>> =
    Mutex::new(FxHashMap::with_hasher(FxBuildHasher));

/// Records an object that was allocated from a pool.
pub(super) fn allocated(pool: Pool, handles: impl Iterator<Item = u64>) {
    locked(&CHILDREN).entry(pool).or_default().extend(handles);
}

/// Records that an object from a pool was freed.
pub(super) fn freed(pool: Pool, handle: u64) {
    if let Some(children) = locked(&CHILDREN).get_mut(&pool) {
        children.remove(&handle);
    }
}

/// Removes and returns the contents of a pool that is about to end.
pub(super) fn emptied(pool: Pool) -> FxHashSet<u64> {
    locked(&CHILDREN).remove(&pool).unwrap_or_default()
}

/// Removes the pools of a device that has ended.
pub(super) fn device_ended(device: ContextUid) {
    locked(&CHILDREN).retain(|(owner, _), _| *owner != device);
}
