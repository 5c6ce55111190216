//! Which number CUPTI gave which context, and where that context is.
//!
//! The callback about a context's creation tells its handle but not its number; the number comes
//! with every later call made while the context is current. So a context enters the ledger when it
//! is first seen current, which is before anything can be made in it, and so do contexts that were
//! there before the harness.
//!
//! A green context, once converted, is current like any other; but what is made in it belongs to
//! the primary context of its device, and outlives it, its streams excepted. It is numbered here,
//! for the number that CUPTI tells may be that of the primary one.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ledger::Place;
use crate::ledger::event::{ContextUid, Event};

/// The contexts of this process.
pub(super) static CONTEXTS: Contexts = Contexts::new();

thread_local! {
    /// The context last seen current on this thread. Numbers are never reused, so what stands here
    /// stays true.
    static LAST_SEEN: Cell<Entry> = const { Cell::new(Entry::NONE) };
}

/// A live context that has been current.
#[derive(Clone, Copy, Debug)]
struct Entry {
    handle: u64,
    uid: ContextUid,
    /// With what context ends what is made in it.
    owner: ContextUid,
    place: Place,
}

/// A green context that was converted, or that has streams.
#[derive(Clone, Copy, Debug)]
struct Green {
    green: u64,
    /// What it was converted to; 0 if it was not.
    handle: u64,
    uid: ContextUid,
    /// Whether the end of its conversion has been told: CUPTI need not.
    is_over: bool,
}

/// Numbers of green contexts begin here: CUPTI's, which count up from 1, do not get so far.
const FIRST_GREEN: u32 = 1 << 31;

impl Entry {
    const NONE: Self = Self {
        handle: 0,
        uid: ContextUid(0),
        owner: ContextUid(0),
        place: Place::UNKNOWN,
    };

    /// As one that the ledger knows.
    fn seen(&self) -> Seen {
        Seen {
            place: self.place,
            owner: self.owner,
            created: None,
        }
    }
}

#[derive(Debug)]
struct Known {
    /// Handles of contexts whose creation was seen, with their places.
    created: Vec<(u64, Place)>,
    current: Vec<Entry>,
    greens: Vec<Green>,
    /// How many there have been.
    numbered: u32,
}

impl Known {
    /// The green context of this handle, with a number from now on.
    fn green(&mut self, green: u64) -> &mut Green {
        let known = self.greens.iter().position(|other| other.green == green);
        let index = known.unwrap_or_else(|| {
            let uid = ContextUid(FIRST_GREEN | self.numbered);
            self.numbered += 1;
            self.greens.push(Green {
                green,
                handle: 0,
                uid,
                is_over: false,
            });
            self.greens.len() - 1
        });
        &mut self.greens[index]
    }

    /// The number of the green context that was converted to `handle`.
    fn converted(&self, handle: u64) -> Option<ContextUid> {
        let mut greens = self.greens.iter();
        greens
            .find(|green| green.handle == handle)
            .map(|green| green.uid)
    }
}

/// What is known of contexts. There are few, and threads seldom change theirs.
#[derive(Debug)]
pub(super) struct Contexts(Mutex<Known>);

/// A context that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Where it is.
    pub(super) place: Place,
    /// With what context ends what is made while it is current; 0 if that is not known.
    pub(super) owner: ContextUid,
    /// Its creation, when it was seen for the first time.
    pub(super) created: Option<Event>,
}

impl Contexts {
    const fn new() -> Self {
        Self(Mutex::new(Known {
            created: Vec::new(),
            current: Vec::new(),
            greens: Vec::new(),
            numbered: 0,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A context came into being at a place.
    pub(super) fn created(&self, handle: u64, place: Place) {
        let mut known = self.lock();
        known.created.retain(|(other, _)| *other != handle);
        known.created.push((handle, place));
    }

    /// A green context was converted to one that can be current.
    pub(super) fn converted(&self, green: u64, handle: u64) {
        self.lock().green(green).handle = handle;
    }

    /// The number of the green context that a stream ends with: the one that it was made for, else
    /// the one that was converted to the context `current`.
    pub(super) fn green_of_stream(&self, green: Option<u64>, current: u64) -> Option<ContextUid> {
        let mut known = self.lock();
        match green {
            Some(green) => Some(known.green(green).uid),
            None if current == 0 => None,
            None => known.converted(current),
        }
    }

    /// A context is current to this thread. `place` is asked when its creation was not seen.
    pub(super) fn seen(&self, handle: u64, uid: ContextUid, place: impl FnOnce() -> Place) -> Seen {
        if handle == 0 {
            return Entry::NONE.seen();
        }
        let last = LAST_SEEN.get();
        if last.uid == uid {
            return last.seen();
        }
        let (entry, created) = self.seen_anew(handle, uid, place);
        if entry.place != Place::UNKNOWN && entry.uid == uid {
            LAST_SEEN.set(entry);
        }
        Seen {
            created,
            ..entry.seen()
        }
    }

    /// As [`Self::seen`], on a thread where another context was current before.
    #[cold]
    fn seen_anew(
        &self,
        handle: u64,
        uid: ContextUid,
        place: impl FnOnce() -> Place,
    ) -> (Entry, Option<Event>) {
        let known_already = |known: &Known| {
            // While the harness starts CUPTI cannot be asked yet; later it can.
            let find = |uid| {
                let is_placed = |entry: &&Entry| entry.uid == uid && entry.place != Place::UNKNOWN;
                known.current.iter().find(is_placed).copied()
            };
            find(uid).or_else(|| find(known.converted(handle)?))
        };
        let created = {
            let known = self.lock();
            if let Some(entry) = known_already(&known) {
                return (entry, None);
            }
            let created = known.created.iter().find(|(other, _)| *other == handle);
            created.map(|(_, place)| *place)
        };
        // Asked with no lock held: the answer may need one of CUPTI's.
        let place = created.unwrap_or_else(place);
        let mut known = self.lock();
        if let Some(entry) = known_already(&known) {
            return (entry, None);
        }
        let (uid, owner) = match known.converted(handle) {
            Some(converted) => (converted, ContextUid(0)),
            None => (uid, uid),
        };
        let entry = Entry {
            handle,
            uid,
            owner,
            place,
        };
        known.current.retain(|entry| entry.uid != uid);
        known.current.push(entry);
        let created = Event::ContextCreated {
            context: uid,
            handle,
            place,
        };
        (entry, Some(created))
    }

    /// A context is about to end. Answers with its number; none if it was never current.
    pub(super) fn ending(&self, handle: u64) -> Option<ContextUid> {
        let mut known = self.lock();
        known.created.retain(|(other, _)| *other != handle);
        let newest = known
            .current
            .iter()
            .rposition(|entry| entry.handle == handle)?;
        let uid = known.current.remove(newest).uid;
        let mut greens = known.greens.iter_mut();
        if let Some(green) = greens.find(|green| green.uid == uid) {
            green.is_over = true;
        }
        Some(uid)
    }

    /// A green context has ended, and what it was converted to with it. Answers as
    /// [`Self::ending`], which need not have been told; none where it has been.
    pub(super) fn green_ended(&self, green: u64) -> Option<ContextUid> {
        let mut known = self.lock();
        let ended = known.greens.iter().position(|other| other.green == green)?;
        let Green { uid, is_over, .. } = known.greens.remove(ended);
        known.current.retain(|entry| entry.uid != uid);
        (!is_over).then_some(uid)
    }
}

#[cfg(test)]
mod tests;
