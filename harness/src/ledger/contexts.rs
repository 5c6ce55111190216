//! The CUDA contexts seen so far.

use crate::order;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::event::{Caller, ContextEnd, ContextUid, ScopeId};
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
    /// The scope whose thread created it.
    pub scope: ScopeId,
}

/// How a context ended, and by whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub(super) cause: ContextEnd,
    pub(super) caller: Caller,
}

/// The contexts. There are few, and they change seldom.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    known: Mutex<Known>,
    /// The highest number of those that ended.
    last_ended: AtomicU32,
}

#[derive(Debug, Default)]
struct Known {
    live: FxHashMap<ContextUid, ContextEntry>,
    ended: FxHashMap<ContextUid, Ending>,
}

impl Contexts {
    fn lock(&self) -> MutexGuard<'_, Known> {
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
        let mut all: Vec<_> = self.lock().live.values().copied().collect();
        order::by_key(&mut all, |entry| entry.uid);
        all
    }
}
