//! Somebody who hears every event in the very order in which the ledger takes them.
//!
//! Without one, threads meet in the ledger's shards only and nobody could say which of two events
//! came first. With one, an event and the telling of it are one step: what was heard, told to
//! another ledger in the same order, gives the same ledger.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::apply::Ledger;
use super::event::{Event, Ticket};
use crate::quiet::quiet;

/// Hears an event after the ledger has taken it, with the ledger's answer. It must neither tell
/// the ledger anything nor wait for a thread that does.
pub type EventListener = Box<dyn Fn(&Ledger, &Event, Option<Ticket>) + Send + Sync>;

/// Nobody listens at first.
#[derive(Default)]
pub(super) struct Tap {
    on: AtomicBool,
    /// Held from before an event is taken until it was told.
    order: Mutex<()>,
    listener: OnceLock<EventListener>,
}

impl fmt::Debug for Tap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Tap").field("on", &self.is_on()).finish()
    }
}

impl Tap {
    /// Whether somebody listens: all that an event costs where nobody does.
    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    fn order(&self) -> MutexGuard<'_, ()> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    /// Has `listener` hear every event from now on. The first one counts.
    pub fn listen(&self, listener: EventListener) {
        let _quiet = quiet();
        let _order = self.tap.order();
        if self.tap.listener.set(listener).is_ok() {
            self.tap.on.store(true, Ordering::Relaxed);
        }
    }

    /// Whether somebody hears the events.
    pub fn is_heard(&self) -> bool {
        self.tap.is_on()
    }

    /// Does `step` between two events, where somebody hears them.
    ///
    /// Like a listener, `step` must neither tell the ledger anything nor wait for a thread that
    /// does.
    pub fn between_events<T>(&self, step: impl FnOnce() -> T) -> T {
        let _quiet = quiet();
        let _order = self.is_heard().then(|| self.tap.order());
        step()
    }

    #[cold]
    pub(super) fn apply_and_tell(&self, event: &Event) -> Option<Ticket> {
        let _order = self.tap.order();
        let answer = self.take_in(event);
        if let Some(listener) = self.tap.listener.get() {
            listener(self, event, answer);
        }
        answer
    }
}
