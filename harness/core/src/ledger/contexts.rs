//! The CUDA contexts seen so far, and what goes with them.

use std::collections::BTreeMap;

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::event::{Caller, ContextEnd, ContextUid, Creation};
use super::kind::Kind;
use super::name::Place;

/// A context that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextEntry {
    /// Its number, never reused in a process.
    pub uid: ContextUid,
    /// Its handle; 0 while only its number is known.
    pub handle: u64,
    /// Its device.
    pub place: Place,
}

/// How a context ended, and by whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub(super) cause: ContextEnd,
    pub(super) caller: Caller,
}

/// The contexts. There are few, and they change seldom.
#[derive(Debug, Default)]
pub(super) struct ContextTable {
    known: Mutex<ContextLists>,
    /// The highest number of those that ended.
    last_ended: AtomicU32,
}

#[derive(Debug, Default)]
struct ContextLists {
    live: BTreeMap<ContextUid, ContextEntry>,
    ended: FxHashMap<ContextUid, Ending>,
}

impl ContextTable {
    fn lock(&self) -> MutexGuard<'_, ContextLists> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn created(&self, entry: ContextEntry) {
        let mut known = self.lock();
        // A recording may use a number again.
        known.ended.remove(&entry.uid);
        known.live.insert(entry.uid, entry);
    }

    pub(super) fn destroyed(&self, uid: ContextUid, ending: Ending) {
        let mut known = self.lock();
        known.live.remove(&uid);
        known.ended.insert(uid, ending);
        self.last_ended.fetch_max(uid.0, Ordering::Release);
    }

    /// How a context ended; none while it lives.
    pub(super) fn ending_of(&self, uid: ContextUid) -> Option<Ending> {
        // Numbers count up: for what is made in the newest context this is one load.
        if uid.0 > self.last_ended.load(Ordering::Acquire) {
            return None;
        }
        self.lock().ended.get(&uid).copied()
    }

    pub(super) fn place_of(&self, uid: ContextUid) -> Place {
        self.lock()
            .live
            .get(&uid)
            .map_or(Place::UNKNOWN, |entry| entry.place)
    }

    pub(super) fn all(&self) -> Vec<ContextEntry> {
        self.lock().live.values().copied().collect()
    }
}

/// Whether the end of the context that `made` names frees it.
///
/// From the documentation of
/// [`cuCtxDestroy`](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__CTX.html), and where
/// that is silent from what an H200 did (driver 580, CUDA 13.0): an object of each kind was made,
/// its context ended by `cuCtxDestroy`, the last `cuDevicePrimaryCtxRelease` and
/// `cuDevicePrimaryCtxReset`, and the object asked for. The three ends were alike for every kind.
pub(super) const fn dies_with_context(made: &Creation) -> bool {
    match made.kind {
        // Gone, the documentation says and the driver showed.
        Kind::Linear
        | Kind::Pitched
        | Kind::Managed
        | Kind::Array
        | Kind::Stream
        | Kind::Event
        | Kind::Module
        | Kind::ExternalMemory => true,
        // The documentation is silent; page-locked memory is unmapped even when it is portable, and
        // registered memory can be registered anew.
        Kind::Pinned | Kind::Registered => true,
        // The documentation says that they go; the driver's calls on dead ones tell nothing.
        Kind::Texture | Kind::Surface | Kind::LinkState | Kind::ExternalSemaphore => true,
        Kind::Context => true,
        // A buffer of external memory goes with its context, a pointer into an imported pool
        // belongs to the pool.
        Kind::Imported => made.pool == 0,
        // Of a device or of the process: still there, and still to be freed.
        Kind::StreamOrdered
        | Kind::Physical
        | Kind::Graph
        | Kind::Library
        | Kind::GraphHandle
        | Kind::ExecGraph
        | Kind::Pool
        | Kind::AddressRange
        | Kind::UserObject
        | Kind::Multicast => false,
        // It retains the primary context, which cannot even be reset while it lives.
        Kind::GreenContext => false,
        Kind::Block => false,
    }
}
