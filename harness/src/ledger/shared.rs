//! What has more than one owner: objects with counted references, and physical memory.
//!
//! Apart from the table, because one call may touch several records here, and one record may need
//! several calls to go. All of it stands behind one lock: these calls are rare, and slow in the
//! driver.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::event::{Key, Space, Ticket};
use super::flights::moment;
use super::holds::{Change, Holds, Taken};
use super::physical::{Dropped, Physical};
use super::record::Record;

/// Everything that has more than one owner.
#[derive(Debug, Default)]
pub(super) struct Shared(Mutex<State>);

/// What stands behind the lock.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) physical: Physical,
    /// Objects that their own keys name.
    pub(super) counted: Holds,
    in_flight: FxHashMap<Ticket, InFlight>,
}

/// What a call gives back, until it ends.
#[derive(Debug)]
enum InFlight {
    Counted(Taken),
    Physical(Vec<Dropped>),
}

/// What became of a call that gave something back.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Whether it gave back anything that was known.
    pub(super) is_known: bool,
    /// The objects that are gone for good, or, of a call that failed, what it did not free.
    pub(super) records: Vec<Record>,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A successful call made an object, or one reference more to what is imported already.
    pub(super) fn created(&mut self, record: Record, changes: &mut Vec<Change>) {
        let key = record.key();
        if key.space == Space::PhysicalHandle {
            self.physical.created(record, changes);
        } else if key.space == Space::IpcPointer && self.counted.is_held(&key) {
            self.counted.add(&key, 1);
        } else {
            self.counted.enter(record, changes);
        }
    }

    /// The call with this ticket begins to give `count` references to `key` back.
    pub(super) fn give_back_began(
        &mut self,
        ticket: Ticket,
        key: &Key,
        count: u64,
        changes: &mut Vec<Change>,
    ) {
        let in_flight = if key.space == Space::PhysicalHandle {
            let dropped = self.physical.release_began(key.value, changes);
            dropped.map(|dropped| InFlight::Physical(vec![dropped]))
        } else {
            let taken = self.counted.take(key, count, changes);
            taken.map(InFlight::Counted)
        };
        self.in_flight.extend(in_flight.map(|it| (ticket, it)));
    }

    /// The call with this ticket begins to unmap `bytes` from `address` on.
    pub(super) fn unmap_began(
        &mut self,
        ticket: Ticket,
        address: u64,
        bytes: u64,
        changes: &mut Vec<Change>,
    ) {
        let dropped = self.physical.unmap_began(address, bytes, changes);
        if !dropped.is_empty() {
            self.in_flight.insert(ticket, InFlight::Physical(dropped));
        }
    }

    /// The call with this ticket has succeeded.
    pub(super) fn commit(&mut self, ticket: Ticket) -> Outcome {
        let mut outcome = Outcome::default();
        let in_flight = self.in_flight.remove(&ticket);
        outcome.is_known = in_flight.is_some();
        match in_flight {
            Some(InFlight::Counted(taken)) => {
                let is_gone = self.counted.commit(taken);
                outcome.records.extend(is_gone.then_some(taken.record));
            }
            Some(InFlight::Physical(dropped)) => {
                for dropped in dropped {
                    let is_gone = self.physical.commit(dropped);
                    outcome
                        .records
                        .extend(is_gone.then_some(dropped.taken.record));
                }
            }
            None => {}
        }
        outcome
    }

    /// The call with this ticket has failed: its holds are there as before.
    pub(super) fn put_back(&mut self, ticket: Ticket, changes: &mut Vec<Change>) -> Outcome {
        let mut outcome = Outcome::default();
        let in_flight = self.in_flight.remove(&ticket);
        outcome.is_known = in_flight.is_some();
        match in_flight {
            Some(InFlight::Counted(taken)) => {
                self.counted.put_back(taken, changes);
                outcome.records.push(taken.record);
            }
            Some(InFlight::Physical(dropped)) => {
                for dropped in dropped {
                    self.physical.put_back(dropped, changes);
                    outcome.records.push(dropped.taken.record);
                }
            }
            None => {}
        }
        outcome
    }

    /// A call that gave back what was not known has succeeded; a hold that is older was put back
    /// meanwhile by one that failed. Answers whether there was one.
    pub(super) fn released_unknown(
        &mut self,
        ticket: Ticket,
        key: &Key,
        changes: &mut Vec<Change>,
    ) -> bool {
        let began = moment(ticket);
        if matches!(key.space, Space::PhysicalHandle | Space::Mapping) {
            return self.physical.released_unknown(key, began, changes);
        }
        let stale = self.counted.held_since_before(key, began).is_some();
        if stale {
            self.counted.give_back(key, 1, changes);
        }
        stale
    }
}
