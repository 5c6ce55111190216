//! A listener that receives every event in the exact order in which the ledger applies them.
//!
//! Without a listener, threads only contend for the ledger's shards, and the order of two events is
//! not defined. With a listener, applying an event and reporting it are one step, so applying the
//! reported events in the same order to another ledger gives the same state.

use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::event::{Event, Ticket};

/// Receives an event that has been applied to an `L`, and the ticket that applying it returned. The
/// listener must neither report an event nor wait for a thread that does.
pub(super) type Listener<L> = Box<dyn Fn(&L, &Event, Option<Ticket>) + Send + Sync>;

/// The listener, if there is one. Initially, there is none.
#[derive(Default)]
pub(super) struct Tap<L> {
    /// This lock is held from before an event is applied until the event has been reported.
    order: Mutex<()>,
    listener: OnceLock<Listener<L>>,
}

impl<L> fmt::Debug for Tap<L> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Tap").field("on", &self.is_on()).finish()
    }
}

impl<L> Tap<L> {
    /// Whether there is a listener. If there is none, this check is the only cost for an event.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.listener.get().is_some()
    }

    /// Returns a guard. If there is a listener, no event is applied while the guard exists.
    pub(super) fn order(&self) -> MutexGuard<'_, ()> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a listener, unless there is one.
    pub(super) fn listen(&self, listener: Listener<L>) {
        let _order = self.order();
        self.listener.get_or_init(|| listener);
    }

    /// Applies an event with `apply`, and reports it.
    pub(super) fn notify(
        &self,
        to: &L,
        event: &Event,
        apply: impl FnOnce() -> Option<Ticket>,
    ) -> Option<Ticket> {
        let _order = self.order();
        let answer = apply();
        if let Some(listener) = self.listener.get() {
            listener(to, event, answer);
        }
        answer
    }
}
