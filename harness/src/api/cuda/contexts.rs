//! Which contexts there are, by numbers of our own, and where each of them is.
//!
//! The driver gives a handle again once its context has ended, so a context's identity is a number:
//! given when its creation is heard, or when it is first seen current, and taken back at its end. The
//! ledger is told of it when it is first seen current, which is before anything can be made in it.
//!
//! A green context, once converted, is current like any other; but what is made in it belongs to
//! the primary context of its device, and outlives it, its streams excepted.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ledger::Place;
use crate::ledger::event::{ContextUid, Event};

/// The contexts of this process.
pub(super) static CONTEXTS: Contexts = Contexts::new();

thread_local! {
    /// The context last seen current on this thread, and when.
    static LAST_SEEN: Cell<(u32, Context)> = const { Cell::new((0, Context::NONE)) };
}

/// A live context; a green one also before it is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context {
    /// 0 for a green one that is not converted.
    pub(super) handle: u64,
    pub(super) uid: ContextUid,
    /// With what context ends what is made in it; 0 if that is not known.
    pub(super) owner: ContextUid,
    pub(super) place: Place,
    /// Its handle as a green context; else 0.
    green: u64,
    /// It may be the primary one of its device.
    is_primary: bool,
    /// The ledger knows it.
    is_told: bool,
}

impl Context {
    const NONE: Self = Self {
        handle: 0,
        uid: ContextUid(0),
        owner: ContextUid(0),
        place: Place::UNKNOWN,
        green: 0,
        is_primary: false,
        is_told: false,
    };

    /// The number by which the ledger knows it; none if it does not.
    pub(super) fn told(self) -> Option<ContextUid> {
        self.is_told.then_some(self.uid)
    }
}

#[derive(Debug)]
struct Known {
    contexts: Vec<Context>,
    /// The number given last.
    last: u32,
}

impl Known {
    fn find(&self, which: impl Fn(&Context) -> bool) -> Option<&Context> {
        self.contexts.iter().find(|context| which(context))
    }

    /// The context of this handle, from now on if it was not known: then it is `new`, with a number.
    fn by_handle(&mut self, handle: u64, new: Context) -> &mut Context {
        self.get_or_add(|context| context.handle == handle, new)
    }

    fn get_or_add(&mut self, which: impl Fn(&Context) -> bool, new: Context) -> &mut Context {
        let known = self.contexts.iter().position(which);
        let index = known.unwrap_or_else(|| {
            self.last += 1;
            let uid = ContextUid(self.last);
            // What is made in a green context belongs to the primary one of its device.
            let owner = if new.green == 0 { uid } else { ContextUid(0) };
            self.contexts.push(Context { uid, owner, ..new });
            self.contexts.len() - 1
        });
        &mut self.contexts[index]
    }

    /// The green context of this handle, with a number from now on.
    fn green(&mut self, green: u64) -> &mut Context {
        let new = Context {
            green,
            ..Context::NONE
        };
        self.get_or_add(|context| context.green == green, new)
    }
}

/// What is known of contexts. There are few, and threads seldom change theirs.
#[derive(Debug)]
pub(super) struct Contexts {
    known: Mutex<Known>,
    /// How often a context has come or gone: what a thread remembers is true as long as this stays.
    changes: AtomicU32,
}

impl Contexts {
    pub(super) const fn new() -> Self {
        Self {
            known: Mutex::new(Known {
                contexts: Vec::new(),
                last: 0,
            }),
            changes: AtomicU32::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Self::lock`], for a change of what is live.
    fn change(&self) -> MutexGuard<'_, Known> {
        let known = self.lock();
        self.changes.fetch_add(1, Ordering::Release);
        known
    }

    /// A context was made at a place, or its device's primary one was retained there.
    pub(super) fn created(&self, handle: u64, place: Place, is_primary: bool) {
        let mut known = self.change();
        if !is_primary {
            known.contexts.retain(|context| context.handle != handle);
        }
        let new = Context {
            handle,
            place,
            is_primary,
            ..Context::NONE
        };
        known.by_handle(handle, new);
    }

    /// A green context was made at a place.
    pub(super) fn green_created(&self, green: u64, place: Place) {
        self.change().green(green).place = place;
    }

    /// A green context was converted to one that can be current.
    pub(super) fn converted(&self, green: u64, handle: u64) {
        let mut known = self.change();
        known
            .contexts
            .retain(|context| context.handle != handle || context.green == green);
        known.green(green).handle = handle;
    }

    /// The number of the green context that a stream ends with: the one that it was made for, else
    /// the one that was converted to the context `current`.
    pub(super) fn green_of_stream(&self, green: Option<u64>, current: u64) -> Option<ContextUid> {
        let mut known = self.lock();
        match green {
            Some(green) => Some(known.green(green).uid),
            None if current == 0 => None,
            None => {
                let green = known.find(|it| it.handle == current && it.green != 0);
                green.map(|green| green.uid)
            }
        }
    }

    /// The context `handle`, which is current to this thread, and its creation, where the ledger does
    /// not know of it. `place` is asked where its creation was not heard.
    pub(super) fn seen(
        &self,
        handle: u64,
        place: impl FnOnce() -> Place,
    ) -> (Context, Option<Event>) {
        if handle == 0 {
            return (Context::NONE, None);
        }
        let changes = self.changes.load(Ordering::Acquire);
        let (when, last) = LAST_SEEN.get();
        if last.handle == handle && when == changes {
            return (last, None);
        }
        let (context, created) = self.seen_anew(handle, place);
        LAST_SEEN.set((changes, context));
        (context, created)
    }

    /// As [`Self::seen`], where this thread does not remember it.
    #[cold]
    fn seen_anew(&self, handle: u64, place: impl FnOnce() -> Place) -> (Context, Option<Event>) {
        let is_it = |context: &Context| context.handle == handle;
        let known = self.lock().find(is_it).map(|context| context.place);
        // Asked with no lock held.
        let place = known
            .filter(|place| *place != Place::UNKNOWN)
            .unwrap_or_else(place);
        if place == Place::UNKNOWN {
            // One that has ended stays current to threads, and has no device any more.
            return (Context::NONE, None);
        }
        let new = Context {
            handle,
            place,
            is_primary: true,
            ..Context::NONE
        };
        let mut known = self.lock();
        let context = known.by_handle(handle, new);
        context.place = place;
        let created = (!context.is_told).then_some(Event::ContextCreated {
            context: context.uid,
            handle,
            place,
        });
        context.is_told = true;
        (*context, created)
    }

    /// A context is about to end; none if it is not known. From here on its handle may be another's.
    pub(super) fn ending(&self, handle: u64) -> Option<Context> {
        self.end(|context| context.handle == handle)
    }

    /// As [`Self::ending`], of the primary context of a place.
    pub(super) fn primary_ending(&self, place: Place) -> Option<Context> {
        self.end(|context| context.place == place && context.is_primary)
    }

    /// As [`Self::ending`], of a green context that has ended, and what it was converted to with it.
    pub(super) fn green_ended(&self, green: u64) -> Option<Context> {
        self.end(|context| context.green == green)
    }

    fn end(&self, which: impl Fn(&Context) -> bool) -> Option<Context> {
        let mut known = self.change();
        let index = known.contexts.iter().position(which)?;
        Some(known.contexts.swap_remove(index))
    }

    /// It has not ended: the call failed.
    pub(super) fn has_not_ended(&self, context: Context) {
        let mut known = self.change();
        known
            .contexts
            .retain(|other| other.handle != context.handle);
        known.contexts.push(context);
    }
}

/// Has this thread begin anew, with other contexts.
#[cfg(test)]
pub(super) fn forget() {
    LAST_SEEN.set((0, Context::NONE));
}

#[cfg(test)]
mod tests;
