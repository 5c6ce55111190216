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

/// A live context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) handle: u64,
    pub(super) uid: ContextUid,
    /// With what context ends what is made in it; 0 if that is not known.
    pub(super) owner: ContextUid,
    pub(super) place: Place,
    /// Made by `cuCtxCreate`: not the primary one of its device.
    is_own: bool,
    /// The ledger knows it.
    is_told: bool,
}

impl Context {
    const NONE: Self = Self {
        handle: 0,
        uid: ContextUid(0),
        owner: ContextUid(0),
        place: Place::UNKNOWN,
        is_own: false,
        is_told: false,
    };
}

/// A green context that was converted, or that has streams.
#[derive(Clone, Copy, Debug)]
struct Green {
    green: u64,
    /// What it was converted to; 0 if it was not.
    handle: u64,
    uid: ContextUid,
}

#[derive(Debug)]
struct Known {
    contexts: Vec<Context>,
    greens: Vec<Green>,
    /// The number given last.
    last: u32,
}

impl Known {
    fn next(&mut self) -> ContextUid {
        self.last += 1;
        ContextUid(self.last)
    }

    fn by_handle(&mut self, handle: u64) -> Option<&mut Context> {
        let mut contexts = self.contexts.iter_mut();
        contexts.find(|context| context.handle == handle)
    }

    /// The green context of this handle, with a number from now on.
    fn green(&mut self, green: u64) -> &mut Green {
        let known = self.greens.iter().position(|other| other.green == green);
        let index = known.unwrap_or_else(|| {
            let uid = self.next();
            self.greens.push(Green {
                green,
                handle: 0,
                uid,
            });
            self.greens.len() - 1
        });
        &mut self.greens[index]
    }

    /// The number of the green context that was converted to `handle`.
    fn converted(&self, handle: u64) -> Option<ContextUid> {
        let mut greens = self.greens.iter();
        let green = greens.find(|green| green.handle == handle && handle != 0);
        green.map(|green| green.uid)
    }

    /// A context that was not known.
    fn add(&mut self, handle: u64, place: Place, is_own: bool) -> &mut Context {
        let converted = self.converted(handle);
        let uid = converted.unwrap_or_else(|| self.next());
        self.contexts.push(Context {
            handle,
            uid,
            owner: converted.map_or(uid, |_| ContextUid(0)),
            place,
            is_own: is_own || converted.is_some(),
            is_told: false,
        });
        self.contexts.last_mut().expect("it was just added")
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
                greens: Vec::new(),
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

    /// `cuCtxCreate` made a context at a place.
    pub(super) fn created(&self, handle: u64, place: Place) {
        let mut known = self.change();
        known.contexts.retain(|context| context.handle != handle);
        known.add(handle, place, true);
    }

    /// The primary context of a place was retained, and is live.
    pub(super) fn retained(&self, handle: u64, place: Place) {
        let mut known = self.change();
        if known.by_handle(handle).is_none() {
            known.add(handle, place, false);
        }
    }

    /// A green context was converted to one that can be current.
    pub(super) fn converted(&self, green: u64, handle: u64) {
        let mut known = self.change();
        known.contexts.retain(|context| context.handle != handle);
        known.green(green).handle = handle;
    }

    /// The number of the green context that a stream ends with: the one that it was made for, else
    /// the one that was converted to the context `current`.
    pub(super) fn green_of_stream(&self, green: Option<u64>, current: u64) -> Option<ContextUid> {
        let mut known = self.lock();
        match green {
            Some(green) => Some(known.green(green).uid),
            None => known.converted(current),
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
        let is_known = self.lock().by_handle(handle).is_some();
        // Asked with no lock held.
        let place = if is_known { Place::UNKNOWN } else { place() };
        let mut known = self.lock();
        if known.by_handle(handle).is_none() {
            if place == Place::UNKNOWN {
                // One that has ended stays current to threads, and has no device any more.
                return (Context::NONE, None);
            }
            known.add(handle, place, false);
        }
        let context = known.by_handle(handle).expect("it was just added");
        let created = (!context.is_told).then_some(Event::ContextCreated {
            context: context.uid,
            handle,
            place: context.place,
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
        self.end(|context| context.place == place && !context.is_own)
    }

    fn end(&self, which: impl Fn(&Context) -> bool) -> Option<Context> {
        let mut known = self.change();
        let index = known.contexts.iter().position(which)?;
        Some(known.contexts.swap_remove(index))
    }

    /// It has not ended: the call failed.
    pub(super) fn has_not_ended(&self, context: Context) {
        let mut known = self.change();
        known.contexts.retain(|other| other.handle != context.handle);
        known.contexts.push(context);
    }

    /// A green context has ended, and what it was converted to with it. Answers with its number, if it
    /// has one.
    pub(super) fn green_ended(&self, green: u64) -> Option<ContextUid> {
        let mut known = self.change();
        let ended = known.greens.iter().position(|other| other.green == green)?;
        let Green { uid, .. } = known.greens.remove(ended);
        known.contexts.retain(|context| context.uid != uid);
        Some(uid)
    }
}

impl Context {
    /// The number by which the ledger knows it; none if it does not.
    pub(super) fn told(self) -> Option<ContextUid> {
        self.is_told.then_some(self.uid)
    }
}

/// Has this thread begin anew, with other contexts.
#[cfg(test)]
pub(super) fn forget() {
    LAST_SEEN.set((0, Context::NONE));
}

#[cfg(test)]
mod tests;
