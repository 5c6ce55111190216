//! Which contexts there are, by numbers of our own, and where each of them is.
//!
//! The driver gives a handle again once its context has ended, so a context's identity is a number:
//! given when its creation is heard, or when it is first seen current, and taken back at its end. The
//! ledger hears of it when it is first seen current, which is before anything can be made in it.
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
    pub(super) green: u64,
    /// It may be the primary one of its device.
    pub(super) is_primary: bool,
    /// The ledger knows it.
    is_reported: bool,
}

impl Context {
    const NONE: Self = Self {
        handle: 0,
        uid: ContextUid(0),
        owner: ContextUid(0),
        place: Place::UNKNOWN,
        green: 0,
        is_primary: false,
        is_reported: false,
    };

    /// The number by which the ledger knows it; none if it does not.
    pub(super) fn reported(self) -> Option<ContextUid> {
        self.is_reported.then_some(self.uid)
    }
}

/// What is known of contexts. There are few, and threads seldom change theirs.
#[derive(Debug)]
pub(super) struct Contexts {
    known: Mutex<Vec<Context>>,
    /// How often a context has come or gone: what a thread remembers is true as long as this stays. Of
    /// these numbers each new context is given one.
    changes: AtomicU32,
}

impl Contexts {
    pub(super) const fn new() -> Self {
        Self {
            known: Mutex::new(Vec::new()),
            changes: AtomicU32::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Context>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) -> u32 {
        self.changes.fetch_add(1, Ordering::Release) + 1
    }

    /// The one of these contexts that is looked for; if there is none it is `new`, with a number.
    fn get_or_add<'a>(
        &self,
        known: &'a mut Vec<Context>,
        which: impl Fn(&Context) -> bool,
        new: Context,
    ) -> &'a mut Context {
        let index = known.iter().position(which).unwrap_or_else(|| {
            let uid = ContextUid(self.changed());
            // What is made in a green context belongs to the primary one of its device.
            let owner = if new.green == 0 { uid } else { ContextUid(0) };
            known.push(Context { uid, owner, ..new });
            known.len() - 1
        });
        &mut known[index]
    }

    /// The green context of this handle, with a number from now on.
    fn green<'a>(&self, known: &'a mut Vec<Context>, green: u64) -> &'a mut Context {
        let new = Context {
            green,
            ..Context::NONE
        };
        self.get_or_add(known, |context| context.green == green, new)
    }

    /// A context was made at a place, or its device's primary one was retained there.
    pub(super) fn created(&self, handle: u64, place: Place, is_primary: bool) {
        let mut known = self.lock();
        if !is_primary {
            known.retain(|context| context.handle != handle);
        }
        self.changed();
        let new = Context {
            handle,
            place,
            is_primary,
            ..Context::NONE
        };
        self.get_or_add(&mut known, |context| context.handle == handle, new);
    }

    /// A green context was made at a place.
    pub(super) fn green_created(&self, green: u64, place: Place) {
        self.green(&mut self.lock(), green).place = place;
        self.changed();
    }

    /// A green context was converted to one that can be current.
    pub(super) fn converted(&self, green: u64, handle: u64) {
        let mut known = self.lock();
        known.retain(|context| context.handle != handle || context.green == green);
        self.green(&mut known, green).handle = handle;
        self.changed();
    }

    /// The number of the green context that a stream ends with: the one that it was made for, else
    /// the one that was converted to the context `current`.
    pub(super) fn green_of_stream(&self, green: Option<u64>, current: u64) -> Option<ContextUid> {
        let mut known = self.lock();
        if let Some(green) = green {
            return Some(self.green(&mut known, green).uid);
        }
        let made_in = |it: &&Context| current != 0 && it.handle == current && it.green != 0;
        known.iter().find(made_in).map(|green| green.uid)
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
        let placed = |it: &&Context| is_it(it) && it.place != Place::UNKNOWN;
        let known = self.lock().iter().find(placed).map(|context| context.place);
        // Asked with no lock held.
        let place = known.unwrap_or_else(place);
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
        let context = self.get_or_add(&mut known, is_it, new);
        context.place = place;
        let created = (!context.is_reported).then_some(Event::ContextCreated {
            context: context.uid,
            handle,
            place,
        });
        context.is_reported = true;
        (*context, created)
    }

    /// A context is about to end, or has ended; none if it is not known. From here on its handle may be
    /// another's. What a green one was converted to ends with it.
    pub(super) fn end(&self, which: impl Fn(&Context) -> bool) -> Option<Context> {
        let mut known = self.lock();
        let index = known.iter().position(which)?;
        self.changed();
        Some(known.swap_remove(index))
    }

    /// It has not ended: the call failed.
    pub(super) fn has_not_ended(&self, context: Context) {
        let mut known = self.lock();
        known.retain(|other| other.handle != context.handle);
        known.push(context);
        self.changed();
    }
}

/// While it lives, no other thread retains or releases the primary context of its device.
///
/// Whether a release was the last one is asked of the driver after it. Another thread's retain in
/// between would make a new context under the same handle, and the end of the old one would be missed.
pub(super) struct PrimaryTurn {
    _device: MutexGuard<'static, ()>,
}

thread_local! {
    static HAS_TURN: Cell<bool> = const { Cell::new(false) };
}

impl PrimaryTurn {
    /// Waits for this thread's turn; none where it has one already, because a tool calls back from inside
    /// such a call.
    pub(super) fn at(device: i32) -> Option<Self> {
        /// Some devices share one: they are more than a machine has.
        static DEVICES: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

        if HAS_TURN.replace(true) {
            return None;
        }
        let device = &DEVICES[device.unsigned_abs() as usize % DEVICES.len()];
        Some(Self {
            _device: device.lock().unwrap_or_else(PoisonError::into_inner),
        })
    }
}

impl Drop for PrimaryTurn {
    fn drop(&mut self) {
        HAS_TURN.set(false);
    }
}

/// Has this thread begin anew, with other contexts.
#[cfg(test)]
pub(super) fn forget() {
    LAST_SEEN.set((0, Context::NONE));
}

#[cfg(test)]
mod tests;
