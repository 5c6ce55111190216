//! The CUDA contexts seen so far.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::event::{ContextUid, ScopeId};
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

/// The live contexts. There are few, and they change seldom.
#[derive(Debug, Default)]
pub(super) struct Contexts(Mutex<FxHashMap<ContextUid, ContextEntry>>);

impl Contexts {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<ContextUid, ContextEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn created(&self, entry: ContextEntry) {
        self.lock().insert(entry.uid, entry);
    }

    pub(super) fn destroyed(&self, uid: ContextUid) -> Option<ContextEntry> {
        self.lock().remove(&uid)
    }

    pub(super) fn place_of(&self, uid: ContextUid) -> Place {
        self.lock()
            .get(&uid)
            .map_or(Place::UNKNOWN, |entry| entry.place)
    }

    pub(super) fn all(&self) -> Vec<ContextEntry> {
        let mut all: Vec<_> = self.lock().values().copied().collect();
        all.sort_unstable_by_key(|entry| entry.uid);
        all
    }
}
