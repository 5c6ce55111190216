//! Which number CUPTI gave which context.
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
    /// The context last seen current on this thread: it is known. Numbers are never reused.
    static LAST_SEEN: Cell<ContextUid> = const { Cell::new(ContextUid(0)) };
}

#[derive(Debug)]
struct Known {
    /// Handles of contexts whose creation was seen, with their devices.
    created: Vec<(u64, Place)>,
    /// Handles and numbers of live contexts that have been current.
    current: Vec<(u64, ContextUid)>,
}

/// What is known of contexts. There are few, and threads seldom change theirs.
#[derive(Debug)]
pub(super) struct Contexts(Mutex<Known>);

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

    /// A context came into being on a device.
    pub(super) fn created(&self, handle: u64, place: Place) {
        let mut known = self.lock();
        known.created.retain(|(other, _)| *other != handle);
        known.created.push((handle, place));
    }

    /// A context is current to this thread. Answers with its creation when it is new; `device` is
    /// asked when its creation was not seen.
    pub(super) fn seen(
        &self,
        handle: u64,
        uid: ContextUid,
        device: impl FnOnce() -> Place,
    ) -> Option<Event> {
        if handle == 0 || LAST_SEEN.replace(uid) == uid {
            return None;
        }
        self.first_seen(handle, uid, device)
    }

    #[cold]
    fn first_seen(
        &self,
        handle: u64,
        uid: ContextUid,
        device: impl FnOnce() -> Place,
    ) -> Option<Event> {
        let created = {
            let known = self.lock();
            let created = known.created.iter().find(|(other, _)| *other == handle);
            created.map(|(_, place)| *place)
        };
        // Asked with no lock held: the answer may need one of CUPTI's.
        let place = created.unwrap_or_else(device);
        let mut known = self.lock();
        if known.current.iter().any(|(_, other)| *other == uid) {
            return None;
        }
        known.current.push((handle, uid));
        Some(Event::ContextCreated {
            context: uid,
            handle,
            place,
        })
    }

    /// A context is about to end. Answers with its number; none if it was never current.
    pub(super) fn ending(&self, handle: u64) -> Option<ContextUid> {
        let mut known = self.lock();
        known.created.retain(|(other, _)| *other != handle);
        let newest = known
            .current
            .iter()
            .rposition(|(other, _)| *other == handle)?;
        Some(known.current.swap_remove(newest).1)
    }
}

#[cfg(test)]
mod tests {
    use super::{ContextUid, Contexts, Event, LAST_SEEN, Place};

    /// What a thread that has seen no context yet is told.
    fn seen_anew(contexts: &Contexts, handle: u64, uid: u32, device: Place) -> Option<Event> {
        LAST_SEEN.set(ContextUid(0));
        contexts.seen(handle, ContextUid(uid), || device)
    }

    fn created(context: u32, handle: u64, place: Place) -> Event {
        Event::ContextCreated {
            context: ContextUid(context),
            handle,
            place,
        }
    }

    #[test]
    fn a_context_is_told_once_with_the_device_it_was_created_on() {
        let contexts = Contexts::new();
        contexts.created(0xc0, Place::cuda(1));
        let event = seen_anew(&contexts, 0xc0, 4, Place::UNKNOWN);
        assert_eq!(event, Some(created(4, 0xc0, Place::cuda(1))));
        assert_eq!(seen_anew(&contexts, 0xc0, 4, Place::UNKNOWN), None);
    }

    #[test]
    fn the_device_of_an_older_context_is_asked() {
        let contexts = Contexts::new();
        let event = seen_anew(&contexts, 0xc0, 1, Place::cuda(2));
        assert_eq!(event, Some(created(1, 0xc0, Place::cuda(2))));
    }

    #[test]
    fn no_context_is_none() {
        assert_eq!(seen_anew(&Contexts::new(), 0, 0, Place::UNKNOWN), None);
    }

    #[test]
    fn a_handle_used_again_is_another_context() {
        let contexts = Contexts::new();
        contexts.created(0xc0, Place::cuda(0));
        seen_anew(&contexts, 0xc0, 1, Place::UNKNOWN);
        assert_eq!(contexts.ending(0xc0), Some(ContextUid(1)));
        assert_eq!(contexts.ending(0xc0), None);
        contexts.created(0xc0, Place::cuda(1));
        let event = seen_anew(&contexts, 0xc0, 2, Place::UNKNOWN);
        assert_eq!(event, Some(created(2, 0xc0, Place::cuda(1))));
        assert_eq!(contexts.ending(0xc0), Some(ContextUid(2)));
    }
}
