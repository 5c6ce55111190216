//! The CUDA contexts seen so far.

use std::collections::BTreeMap;

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::event::{Caller, ContextEnd, ContextUid, Creation};
use super::kind::Kind;
use super::name::Place;

/// A live context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextEntry {
    /// Its number, which is never reused within a process.
    pub uid: ContextUid,
    /// Its handle; 0 while only its number is known.
    pub handle: u64,
    /// Its device.
    pub place: Place,
}

/// How a context ended, and the caller that ended it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub(super) cause: ContextEnd,
    pub(super) caller: Caller,
}

/// The contexts. There are few, and they change rarely.
#[derive(Debug, Default)]
pub(super) struct ContextTable {
    known: Mutex<ContextLists>,
    /// The highest number of a context that has ended.
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
        // A recording may reuse a number.
        known.ended.remove(&entry.uid);
        known.live.insert(entry.uid, entry);
    }

    pub(super) fn destroyed(&self, uid: ContextUid, ending: Ending) {
        let mut known = self.lock();
        known.live.remove(&uid);
        known.ended.insert(uid, ending);
        self.last_ended.fetch_max(uid.0, Ordering::Release);
    }

    /// Returns how a context ended; `None` while it is live.
    #[inline]
    pub(super) fn ending_of(&self, uid: ContextUid) -> Option<Ending> {
        // Numbers increase, so for a resource of the newest context this is one load.
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

/// Whether the resource that `made` describes is freed when its context ends.
///
/// Taken from the documentation of
/// [`cuCtxDestroy`](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__CTX.html) and, where
/// that is silent, from tests on an H200 (driver 580, CUDA 13.0): an object of each kind was
/// created, its context ended by `cuCtxDestroy`, the last `cuDevicePrimaryCtxRelease` and
/// `cuDevicePrimaryCtxReset`, and the object queried. All three had the same effect on every kind.
pub(super) const fn dies_with_context(made: &Creation) -> bool {
    match made.kind {
        // A buffer of external memory ends with its context; a pointer into an imported pool
        // belongs to the pool.
        Kind::Imported => made.pool == 0,
        // These belong to a device or to the process: they remain and must still be freed.
        Kind::StreamOrdered
        | Kind::Physical
        | Kind::Graph
        | Kind::Library
        | Kind::GraphHandle
        | Kind::ExecGraph
        | Kind::Pool
        | Kind::AddressRange
        | Kind::UserObject
        | Kind::Multicast
        // It retains the primary context, which cannot even be reset while the green context is
        // live.
        | Kind::GreenContext
        | Kind::Block => false,
        // Memory, streams, events, modules and external memory are freed, according to both the
        // documentation and the driver. It is silent on page-locked memory, which is unmapped even if it
        // is portable, and on registered memory, which can be registered again. It says that textures,
        // surfaces, link states and external semaphores end; the driver's calls on dead ones prove nothing.
        //
        // What belongs to a device or an instance must end before these do: the API demands it.
        _ => true,
    }
}
