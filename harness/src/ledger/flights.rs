//! Releases between their beginning and their end.

use super::event::{Caller, Key, Ticket};
use super::record::Record;
use super::stripes::{Own, Stripes};

/// A release in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) key: Key,
    /// What was taken out of the table; none for an address the ledger does not know.
    pub(super) record: Option<Record>,
    pub(super) caller: Caller,
}

impl Own {
    /// Enters a release that began at this moment, one of this stripe's. The moment is its ticket:
    /// the stripe where its end finds it is in it.
    pub(super) fn begin(&mut self, began: u64, flight: Flight) -> Ticket {
        let ticket = Ticket(began);
        self.flights.push((ticket, flight));
        ticket
    }
}

impl Stripes {
    /// Takes a release out; none if it has ended already.
    pub(super) fn end_flight(&self, ticket: Ticket) -> Option<Flight> {
        let flights = &mut self.of_flight(ticket).flights;
        let index = flights.iter().position(|(begun, _)| *begun == ticket)?;
        Some(flights.swap_remove(index).1)
    }

    /// Whether a release is in flight.
    pub(super) fn has_flights(&self) -> bool {
        self.each().any(|own| !own.flights.is_empty())
    }
}

/// When a release began.
pub(super) fn moment(ticket: Ticket) -> u64 {
    ticket.0
}
