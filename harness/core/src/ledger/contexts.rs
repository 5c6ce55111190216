//! The contexts seen so far, and the errors that break a context.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::event::{Caller, ContextEnd, ContextUid, Creation, CuResult};
use super::kind::Kind;
use super::name::Place;
use super::quiet_lock::lock_quietly;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, Ordering};

/// A live context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextEntry {
    /// The ID of the context, which is never reused within a process.
    pub uid: ContextUid,
    /// The handle of the context, or 0 while only the ID is known.
    pub handle: u64,
    /// The device of the context.
    pub place: Place,
}

/// How a context ended, and the caller that ended it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub(super) cause: ContextEnd,
    pub(super) caller: Caller,
}

/// The contexts. There are few of them, and they change rarely.
#[derive(Debug, Default)]
pub struct ContextTable {
    known: Mutex<ContextLists>,
    /// The highest ID of a context that has ended.
    last_ended: AtomicU32,
}

#[derive(Debug, Default)]
struct ContextLists {
    live: BTreeMap<ContextUid, ContextEntry>,
    ended: FxHashMap<ContextUid, Ending>,
}

impl ContextTable {
    pub(super) fn created(&self, entry: ContextEntry) {
        let mut known = lock_quietly(&self.known);
        // A recording may reuse an ID.
        known.ended.remove(&entry.uid);
        known.live.insert(entry.uid, entry);
    }

    pub(super) fn destroyed(&self, uid: ContextUid, ending: Ending) {
        let mut known = lock_quietly(&self.known);
        known.live.remove(&uid);
        known.ended.insert(uid, ending);
        self.last_ended.fetch_max(uid.0, Ordering::Release);
    }

    /// Whether a context may have ended. IDs increase, so this is false for a context that is newer
    /// than every context that has ended.
    #[inline]
    pub(super) fn may_have_ended(&self, uid: ContextUid) -> bool {
        uid.0 <= self.last_ended.load(Ordering::Acquire)
    }

    /// Returns how a context ended, or `None` while it is live.
    pub(super) fn ending_of(&self, uid: ContextUid) -> Option<Ending> {
        let ending = || lock_quietly(&self.known).ended.get(&uid).copied();
        self.may_have_ended(uid).then(ending).flatten()
    }

    pub(super) fn place_of(&self, uid: ContextUid) -> Place {
        lock_quietly(&self.known)
            .live
            .get(&uid)
            .map_or(Place::UNKNOWN, |entry| entry.place)
    }

    pub fn is_live(&self, uid: ContextUid) -> bool {
        lock_quietly(&self.known).live.contains_key(&uid)
    }

    pub fn all(&self) -> Vec<ContextEntry> {
        lock_quietly(&self.known).live.values().copied().collect()
    }
}

/// Whether the resource that `made` describes is freed when its context ends.
pub(super) const fn dies_with_context(made: &Creation) -> bool {
    match made.kind {
        // A buffer of external memory ends with its context. A pointer into an imported pool
        // belongs to the pool.
        Kind::Imported => made.pool == 0,
        kind => kind.ends_with_context(),
    }
}

/// The errors after which, according to CUDA 13.0's `cuda.h`, the process or the context is
/// unusable: after a call has returned one, every later call in the process returns it too.
const STICKY: [(CuResult, &str); 13] = [
    (226, "CUDA_ERROR_CONTAINED"),
    (700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    (702, "CUDA_ERROR_LAUNCH_TIMEOUT"),
    (710, "CUDA_ERROR_ASSERT"),
    (714, "CUDA_ERROR_HARDWARE_STACK_ERROR"),
    (715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"),
    (716, "CUDA_ERROR_MISALIGNED_ADDRESS"),
    (717, "CUDA_ERROR_INVALID_ADDRESS_SPACE"),
    (718, "CUDA_ERROR_INVALID_PC"),
    (719, "CUDA_ERROR_LAUNCH_FAILED"),
    (721, "CUDA_ERROR_TENSOR_MEMORY_LEAK"),
    (810, "CUDA_ERROR_MPS_CLIENT_TERMINATED"),
    (911, "CUDA_ERROR_EXTERNAL_DEVICE"),
];

/// Returns the name of a sticky error, or `None` for any other.
pub fn sticky_error(error: CuResult) -> Option<&'static str> {
    let found = STICKY.iter().find(|(code, _)| *code == error);
    found.map(|(_, name)| *name)
}
