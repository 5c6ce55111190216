//! Releases between their beginning and their end.

use crate::sync::{Mutex, MutexGuard, PoisonError};

use super::event::{Caller, Key, Ticket};
use super::record::Record;
use super::stripes::{STRIPES, stripe};

/// The releases that have begun and not ended.
#[derive(Debug, Default)]
pub(super) struct Flights([Stripe; STRIPES]);

/// Those of one stripe of threads: one for each thread at most, so a search is short. Alone on its
/// cache line, as in the table.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(Mutex<Vec<(Ticket, Flight)>>);

/// A release in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) key: Key,
    /// What was taken out of the table; none for an address the ledger does not know.
    pub(super) record: Option<Record>,
    pub(super) caller: Caller,
}

impl Flights {
    /// Enters a release that `began` at this moment.
    pub(super) fn begin(&self, began: u64, flight: Flight) -> Ticket {
        // A ticket is a moment, and the stripe where its end finds it.
        let stripe = stripe(flight.caller.thread);
        let ticket = Ticket(began * STRIPES as u64 + stripe as u64);
        self.0[stripe].lock().push((ticket, flight));
        ticket
    }

    /// Takes a release out; none if it has ended already.
    pub(super) fn end(&self, ticket: Ticket) -> Option<Flight> {
        let mut flights = self.0[ticket.0 as usize % STRIPES].lock();
        let index = flights.iter().position(|(begun, _)| *begun == ticket)?;
        Some(flights.swap_remove(index).1)
    }

    /// Whether none is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|stripe| stripe.lock().is_empty())
    }
}

/// When a release began.
pub(super) fn moment(ticket: Ticket) -> u64 {
    ticket.0 / STRIPES as u64
}

impl Stripe {
    fn lock(&self) -> MutexGuard<'_, Vec<(Ticket, Flight)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
