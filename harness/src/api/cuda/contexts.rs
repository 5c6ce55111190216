//! The contexts of the process, with their numbers and places.
//!
//! The driver reuses a handle after its context has ended, so a context is identified by a number.
//! The number is assigned when the creation is intercepted or when the context is first found to be
//! current, and is removed when the context ends. A context is reported to the ledger when it is
//! first found to be current. This is before anything can be created in it.
//!
//! Once a green context has been converted, it can be current like any other context. Resources
//! created in it outlive it. A stream has to be destroyed explicitly; with the driver of CUDA 13.0,
//! this must happen before the end of the green context. Everything else ends with the primary
//! context of its device.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::ledger::Place;
use crate::ledger::event::{ContextUid, Event};
use crate::sync::{Mutex, MutexGuard, locked};

pub(super) static CONTEXTS: Contexts = Contexts::new();

thread_local! {
    /// The context that was last found to be current on this thread, and the count of changes at
    /// that time.
    static LAST_SEEN: Cell<(u32, Context)> = const { Cell::new((0, Context::NONE)) };
}

/// A live context. A green context is listed even before it is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Context {
    /// The handle. It is 0 for a green context that has not been converted, for a primary context
    /// that only a green one has retained so far, and for a context whose handle now belongs to
    /// another one.
    pub(super) handle: u64,
    pub(super) uid: ContextUid,
    /// The context whose end is also the end of resources created in this one; 0 if unknown.
    pub(super) owner: ContextUid,
    pub(super) place: Place,
    /// The handle as a green context; 0 for other contexts.
    pub(super) green: u64,
    /// Whether the context may be the primary context of its device.
    pub(super) is_primary: bool,
    /// Whether the ledger knows the context.
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

    fn is_primary_at(&self, place: Place) -> bool {
        self.is_primary && self.place == place
    }

    /// Returns the event that makes the context known to the ledger, unless it was returned before.
    fn report(&mut self) -> Option<Event> {
        let is_reported = std::mem::replace(&mut self.is_reported, true);
        (!is_reported).then_some(Event::ContextCreated {
            context: self.uid,
            handle: self.handle,
            place: self.place,
        })
    }
}

/// The known contexts. There are few contexts, and threads rarely change their current one.
pub(super) struct Contexts {
    known: Mutex<Vec<Context>>,
    /// How many times the known contexts have changed. A thread's cached value is valid as long as
    /// this count is unchanged. New contexts also get their numbers from this count.
    changes: AtomicU32,
    /// Whether there have ever been contexts of several devices.
    are_of_several_devices: AtomicBool,
}

impl Contexts {
    pub(super) const fn new() -> Self {
        Self {
            known: Mutex::new(Vec::new()),
            changes: AtomicU32::new(0),
            are_of_several_devices: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Context>> {
        locked(&self.known)
    }

    fn changed(&self) -> u32 {
        self.changes.fetch_add(1, Ordering::Release) + 1
    }

    /// Returns the context that `which` selects. If there is none, assigns a number to `new`, adds
    /// it and returns it.
    fn get_or_add<'a>(
        &self,
        known: &'a mut Vec<Context>,
        which: impl Fn(&Context) -> bool,
        new: Context,
    ) -> &'a mut Context {
        let index = known.iter().position(which).unwrap_or_else(|| {
            let uid = ContextUid(self.changed());
            // Resources that are created in a green context do not end with it.
            let owner = if new.green == 0 { uid } else { ContextUid(0) };
            known.push(Context { uid, owner, ..new });
            known.len() - 1
        });
        &mut known[index]
    }

    /// Returns the green context with this handle, adding it if it is unknown.
    fn green<'a>(&self, known: &'a mut Vec<Context>, green: u64) -> &'a mut Context {
        let new = Context {
            green,
            ..Context::NONE
        };
        self.get_or_add(known, |context| context.green == green, new)
    }

    /// Records that a context was created, or that a device's primary context was retained.
    pub(super) fn created(&self, handle: u64, place: Place, is_primary: bool) {
        let mut known = self.lock();
        if !is_primary {
            lose_handle(&mut known, handle);
        }
        self.changed();
        let new = Context {
            handle,
            place,
            is_primary,
            ..Context::NONE
        };
        self.add(&mut known, new);
        self.placed(&known, place);
    }

    /// Returns the context with the handle of `new`, adding `new` if it is unknown. A primary
    /// context may already be known without its handle.
    fn add<'a>(&self, known: &'a mut Vec<Context>, new: Context) -> &'a mut Context {
        let is_known = known.iter().any(|it| it.handle == new.handle);
        let is_it = |it: &Context| match is_known {
            true => it.handle == new.handle,
            false => new.is_primary && it.is_primary_at(new.place) && it.handle == 0,
        };
        let context = self.get_or_add(known, is_it, new);
        if context.handle != new.handle {
            context.handle = new.handle;
            // The ledger has to learn the handle.
            context.is_reported = false;
        }
        context
    }

    /// Records that a green context was created, which retains the primary context of its device.
    /// Returns the event of the primary context's creation, if the ledger does not know that
    /// context yet.
    pub(super) fn green_created(&self, green: u64, place: Place) -> Option<Event> {
        let mut known = self.lock();
        let new = Context {
            place,
            is_primary: true,
            ..Context::NONE
        };
        let primary = self.get_or_add(&mut known, |it| it.is_primary_at(place), new);
        let (owner, reported) = (primary.uid, primary.report());
        let green = self.green(&mut known, green);
        (green.place, green.owner) = (place, owner);
        self.placed(&known, place);
        self.changed();
        reported
    }

    /// Records that a green context was converted to a context that can be current.
    pub(super) fn converted(&self, green: u64, handle: u64) {
        let mut known = self.lock();
        lose_handle(&mut known, handle);
        self.green(&mut known, green).handle = handle;
        self.changed();
    }

    /// Returns the context `handle`, which is current to this thread, and the event of its creation
    /// if the ledger does not know the context yet. `place` is called only if the creation was not
    /// intercepted.
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

    /// Does the work of [`Self::seen`] for a context that this thread has not cached.
    #[cold]
    fn seen_anew(&self, handle: u64, place: impl FnOnce() -> Place) -> (Context, Option<Event>) {
        let is_it = |context: &Context| context.handle == handle;
        let placed = |it: &&Context| is_it(it) && it.place != Place::UNKNOWN;
        let known = self.lock().iter().find(placed).map(|context| context.place);
        // No lock is held during this call.
        let place = known.unwrap_or_else(place);
        if place == Place::UNKNOWN {
            // A context that has ended may still be current to a thread, but has no device.
            return (Context::NONE, None);
        }
        let new = Context {
            handle,
            place,
            is_primary: true,
            ..Context::NONE
        };
        let mut known = self.lock();
        let primary = known.iter().find(|it| it.is_primary_at(place)).copied();
        // A primary context keeps its handle, so a context with another handle belongs to a stream
        // of a green context. If there are several of these, the driver does not say which one.
        if primary.is_some_and(|it| it.handle != 0)
            && !known.iter().any(is_it)
            && let Some(green) =
                (known.iter_mut()).find(|it| it.green != 0 && it.handle == 0 && it.place == place)
        {
            green.handle = handle;
        }
        let context = self.add(&mut known, new);
        context.place = place;
        if context.green != 0 && context.owner == ContextUid(0) {
            // The creation of this green context was not intercepted.
            context.owner = primary.map_or(context.owner, |primary| primary.uid);
        }
        let created = context.report();
        let context = *context;
        self.placed(&known, place);
        (context, created)
    }

    /// Returns the context with this handle, if it is known.
    pub(super) fn find(&self, handle: u64) -> Option<Context> {
        let known = self.lock();
        known.iter().find(|it| it.handle == handle).copied()
    }

    /// Whether there have ever been contexts of several devices.
    pub(super) fn are_of_several_devices(&self) -> bool {
        self.are_of_several_devices.load(Ordering::Relaxed)
    }

    /// Records whether these contexts, one of which belongs to `place`, are of several devices.
    fn placed(&self, known: &[Context], place: Place) {
        if known
            .iter()
            .any(|it| !matches!(it.place, Place::UNKNOWN) && it.place != place)
        {
            self.are_of_several_devices.store(true, Ordering::Relaxed);
        }
    }

    /// Removes and returns a primary context of `place`, which has ended. There may be several,
    /// because a green context that was first seen as the context of a stream is taken for a
    /// primary context.
    pub(super) fn end_primary(&self, place: Place) -> Option<Context> {
        self.end(|context| context.is_primary_at(place))
    }

    /// Removes and returns a context that is about to end or has ended; `None` if it is unknown.
    /// From then on, its handle may refer to another context. If a green context ends, so does the
    /// context to which it was converted.
    pub(super) fn end(&self, which: impl Fn(&Context) -> bool) -> Option<Context> {
        let mut known = self.lock();
        let index = known.iter().position(which)?;
        self.changed();
        Some(known.swap_remove(index))
    }

    /// Restores a context, because the call that was to end it has failed.
    pub(super) fn has_not_ended(&self, context: Context) {
        let mut known = self.lock();
        known.retain(|other| other.handle != context.handle);
        known.push(context);
        self.changed();
    }
}

/// Records that a handle now belongs to another context. A context that had it before may be a
/// green one that was seen as the context of a stream and taken for a primary context. What was
/// created in it ends with the primary context.
fn lose_handle(known: &mut [Context], handle: u64) {
    for context in known.iter_mut().filter(|it| it.handle == handle) {
        context.handle = 0;
    }
}

/// A guard: while it exists, no other thread retains or releases the primary context of its device.
///
/// After a release, the driver is asked whether it was the last one. If another thread retained the
/// context in between, a new context would exist under the same handle, and the end of the old one
/// would be missed.
pub(super) struct PrimaryTurn {
    _device: MutexGuard<'static, ()>,
}

thread_local! {
    static HAS_TURN: Cell<bool> = const { Cell::new(false) };
}

impl PrimaryTurn {
    /// Waits for this thread's turn. Returns `None` if it is already this thread's turn, which
    /// happens when a tool calls back from inside such a call.
    pub(super) fn at(device: i32) -> Option<Self> {
        /// Devices may share a lock, but there are more locks than any machine has devices.
        static DEVICES: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

        if HAS_TURN.replace(true) {
            return None;
        }
        let device = &DEVICES[device.unsigned_abs() as usize % DEVICES.len()];
        Some(Self {
            _device: locked(device),
        })
    }
}

impl Drop for PrimaryTurn {
    fn drop(&mut self) {
        HAS_TURN.set(false);
    }
}

/// Clears this thread's cached context, for a test that begins with other contexts.
#[cfg(test)]
pub(super) fn forget() {
    LAST_SEEN.set((0, Context::NONE));
}

#[cfg(test)]
mod tests;
