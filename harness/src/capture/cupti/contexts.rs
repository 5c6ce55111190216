//! Which number CUPTI gave which context, and where that context is.
//!
//! The callback about a context's creation tells its handle but not its number; the number comes
//! with every later call made while the context is current. So a context enters the ledger when it
//! is first seen current, which is before anything can be made in it, and so do contexts that were
//! there before the harness.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ledger::Place;
use crate::ledger::event::{ContextUid, Event};

/// The contexts of this process.
pub(super) static CONTEXTS: Contexts = Contexts::new();

thread_local! {
    /// The context last seen current on this thread, and its place. Numbers are never reused, so
    /// what stands here stays true.
    static LAST_SEEN: Cell<(ContextUid, Place)> =
        const { Cell::new((ContextUid(0), Place::UNKNOWN)) };
}

/// A live context that has been current.
#[derive(Clone, Copy, Debug)]
struct Entry {
    handle: u64,
    uid: ContextUid,
    place: Place,
}

#[derive(Debug)]
struct Known {
    /// Handles of contexts whose creation was seen, with their places.
    created: Vec<(u64, Place)>,
    current: Vec<Entry>,
}

/// What is known of contexts. There are few, and threads seldom change theirs.
#[derive(Debug)]
pub(super) struct Contexts(Mutex<Known>);

/// A context that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Where it is.
    pub(super) place: Place,
    /// Its creation, when it was seen for the first time.
    pub(super) created: Option<Event>,
}

impl Contexts {
    const fn new() -> Self {
        Self(Mutex::new(Known {
            created: Vec::new(),
            current: Vec::new(),
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

    /// A context is current to this thread. `place` is asked when its creation was not seen.
    pub(super) fn seen(&self, handle: u64, uid: ContextUid, place: impl FnOnce() -> Place) -> Seen {
        let known = |place| Seen {
            place,
            created: None,
        };
        if handle == 0 {
            return known(Place::UNKNOWN);
        }
        let (last, last_place) = LAST_SEEN.get();
        if last == uid {
            return known(last_place);
        }
        let seen = self.seen_anew(handle, uid, place);
        if seen.place != Place::UNKNOWN {
            LAST_SEEN.set((uid, seen.place));
        }
        seen
    }

    /// As [`Self::seen`], on a thread where another context was current before.
    #[cold]
    fn seen_anew(&self, handle: u64, uid: ContextUid, place: impl FnOnce() -> Place) -> Seen {
        let known_already = |known: &Known| {
            // While the harness starts CUPTI cannot be asked yet; later it can.
            let is_placed = |entry: &&Entry| entry.uid == uid && entry.place != Place::UNKNOWN;
            let entry = known.current.iter().find(is_placed)?;
            Some(Seen {
                place: entry.place,
                created: None,
            })
        };
        let created = {
            let known = self.lock();
            if let Some(seen) = known_already(&known) {
                return seen;
            }
            let created = known.created.iter().find(|(other, _)| *other == handle);
            created.map(|(_, place)| *place)
        };
        // Asked with no lock held: the answer may need one of CUPTI's.
        let place = created.unwrap_or_else(place);
        let mut known = self.lock();
        if let Some(seen) = known_already(&known) {
            return seen;
        }
        known.current.retain(|entry| entry.uid != uid);
        known.current.push(Entry { handle, uid, place });
        Seen {
            place,
            created: Some(Event::ContextCreated {
                context: uid,
                handle,
                place,
            }),
        }
    }

    /// A context is about to end. Answers with its number; none if it was never current.
    pub(super) fn ending(&self, handle: u64) -> Option<ContextUid> {
        let mut known = self.lock();
        known.created.retain(|(other, _)| *other != handle);
        let newest = known
            .current
            .iter()
            .rposition(|entry| entry.handle == handle)?;
        Some(known.current.remove(newest).uid)
    }
}

#[cfg(test)]
mod tests {
    use super::{ContextUid, Contexts, Event, LAST_SEEN, Place, Seen};

    /// What a thread that has seen no context yet is told.
    fn seen(contexts: &Contexts, handle: u64, uid: u32, asked: Place) -> Seen {
        LAST_SEEN.set((ContextUid(0), Place::UNKNOWN));
        contexts.seen(handle, ContextUid(uid), || asked)
    }

    fn new(context: u32, handle: u64, place: Place) -> Seen {
        Seen {
            place,
            created: Some(Event::ContextCreated {
                context: ContextUid(context),
                handle,
                place,
            }),
        }
    }

    fn known(place: Place) -> Seen {
        Seen {
            place,
            created: None,
        }
    }

    #[test]
    fn a_context_is_told_once_with_the_place_it_was_created_at() {
        let contexts = Contexts::new();
        let place = Place::cuda(1);
        contexts.created(0xc0, place);
        assert_eq!(
            seen(&contexts, 0xc0, 4, Place::UNKNOWN),
            new(4, 0xc0, place)
        );
        assert_eq!(
            contexts.seen(0xc0, ContextUid(4), || Place::UNKNOWN),
            known(place),
            "the same thread again"
        );
        assert_eq!(
            seen(&contexts, 0xc0, 4, Place::UNKNOWN),
            known(place),
            "another thread"
        );
    }

    #[test]
    fn the_place_of_an_older_context_is_asked() {
        let place = Place::cuda(2);
        assert_eq!(seen(&Contexts::new(), 0xc0, 1, place), new(1, 0xc0, place));
    }

    #[test]
    fn a_place_that_was_not_to_be_had_is_asked_again() {
        let contexts = Contexts::new();
        let (unknown, place) = (Place::UNKNOWN, Place::cuda(0));
        assert_eq!(seen(&contexts, 0xc0, 1, unknown), new(1, 0xc0, unknown));
        let again = contexts.seen(0xc0, ContextUid(1), || place);
        assert_eq!(again, new(1, 0xc0, place), "the same thread");
        assert_eq!(contexts.seen(0xc0, ContextUid(1), || unknown), known(place));
        assert_eq!(contexts.ending(0xc0), Some(ContextUid(1)));
        assert_eq!(contexts.ending(0xc0), None, "it is kept once");
    }

    #[test]
    fn no_context_is_nowhere() {
        let contexts = Contexts::new();
        seen(&contexts, 0xc0, 1, Place::cuda(0));
        let none = contexts.seen(0, ContextUid(0), || Place::cuda(0));
        assert_eq!(none, known(Place::UNKNOWN));
    }

    #[test]
    fn a_handle_used_again_is_another_context() {
        let contexts = Contexts::new();
        contexts.created(0xc0, Place::cuda(0));
        seen(&contexts, 0xc0, 1, Place::UNKNOWN);
        assert_eq!(contexts.ending(0xc0), Some(ContextUid(1)));
        assert_eq!(contexts.ending(0xc0), None);
        contexts.created(0xc0, Place::cuda(1));
        assert_eq!(
            seen(&contexts, 0xc0, 2, Place::UNKNOWN),
            new(2, 0xc0, Place::cuda(1))
        );
        assert_eq!(contexts.ending(0xc0), Some(ContextUid(2)));
    }
}
