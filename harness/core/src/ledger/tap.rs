//! A listener that receives every event in the exact order in which the ledger applies them.
//!
//! Without a listener, threads only contend for the ledger's shards, and the order of two events is
//! not defined. With a listener, applying an event and reporting it are one step, so applying the
//! reported events in the same order to another ledger gives the same state.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::apply::Ledger;
use super::event::{Event, Ticket};
use crate::recursion_guard::quiet;

/// Receives an event after the ledger has applied it, with the ticket that the ledger returned. It
/// must neither report to the ledger nor wait for a thread that does.
pub type EventListener = Box<dyn Fn(&Ledger, &Event, Option<Ticket>) + Send + Sync>;

/// The listener, if there is one. Initially, there is none.
#[derive(Default)]
pub(super) struct Tap {
    on: AtomicBool,
    /// This lock is held from before an event is applied until the event has been reported.
    order: Mutex<()>,
    listener: OnceLock<EventListener>,
}

impl fmt::Debug for Tap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Tap").field("on", &self.is_on()).finish()
    }
}

impl Tap {
    /// Whether there is a listener. If there is none, this check is the only cost for an event.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    fn order(&self) -> MutexGuard<'_, ()> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger {
    /// Calls `listener` for every event from now on. Only the first call takes effect.
    pub fn listen(&self, listener: EventListener) {
        let _quiet = quiet();
        let _order = self.tap.order();
        if self.tap.listener.set(listener).is_ok() {
            self.tap.on.store(true, Ordering::Relaxed);
        }
    }

    /// Whether there is a listener.
    pub fn has_listener(&self) -> bool {
        self.tap.is_on()
    }

    /// Runs `step` between two events, if there is a listener.
    ///
    /// Like a listener, `step` must neither report to the ledger nor wait for a thread that does.
    pub fn between_events<T>(&self, step: impl FnOnce() -> T) -> T {
        let _quiet = quiet();
        let _order = self.has_listener().then(|| self.tap.order());
        step()
    }

    #[cold]
    pub(super) fn apply_and_notify(&self, event: &Event) -> Option<Ticket> {
        let _order = self.tap.order();
        let answer = self.update(event);
        if let Some(listener) = self.tap.listener.get() {
            listener(self, event, answer);
        }
        answer
    }
}
