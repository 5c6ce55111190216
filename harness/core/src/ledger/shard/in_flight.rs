//! The frees of a shard's records that have begun but not ended.

use super::{Entering, Index, SHARDS, Shard, State};
use crate::ledger::event::{Caller, Key, Record, Ticket};
use crate::ledger::figures::Figures;

#[derive(Clone, Debug)]
pub(in crate::ledger) struct InFlightFree {
    pub(in crate::ledger) ticket: Ticket,
    caller: Caller,
    target: FreeTarget,
    /// The sequence number of the event with which another free of the same address began, if the
    /// other free found no record and succeeded while this free was in flight. Otherwise 0. The
    /// other free has freed any resource at the address that was created before the other free
    /// began. If there were several such frees, the last of them counts.
    freed_by: u64,
}

/// The record that a free in flight frees.
#[derive(Clone, Debug)]
enum FreeTarget {
    /// The record at this position, which the free removed from the table.
    Known(Index),
    /// A record whose key now belongs to another record. Drivers reuse addresses quickly, possibly
    /// before the call that freed them has returned.
    Reused(Box<Record>),
    /// An address that had no record when the free began.
    Unknown(Key),
}

/// How a free ended.
#[derive(Clone, Copy, Debug)]
pub(in crate::ledger) enum FreeEnd {
    /// The free is not in flight in this shard.
    Elsewhere,
    /// The free released a record, and nothing else remains to be done.
    Done,
    /// The free has ended, but something remains to be done.
    Pending(EndedFree),
}

/// What is needed to complete a free that has ended.
#[derive(Clone, Copy, Debug)]
pub(in crate::ledger) struct EndedFree {
    pub(in crate::ledger) key: Key,
    pub(in crate::ledger) caller: Caller,
    /// If the free succeeded, the record that it freed, or `None` for an unknown address. If it
    /// failed, the record that is still live, or `None` if another call has freed it.
    pub(in crate::ledger) record: Option<Record>,
}

/// The index of a shard that does not exist, for frees that began outside the table.
pub(in crate::ledger) const NO_SHARD: usize = SHARDS;
/// How many low bits of a ticket contain the index of its shard. The bits above them contain the
/// sequence number of the event with which the free began.
const SHARD_BITS: u32 = NO_SHARD.ilog2() + 1;

/// Returns the ticket of a free that began with the event `sequence` in the shard at the index
/// `number`.
#[inline]
pub(in crate::ledger) fn ticket(sequence: u64, number: usize) -> Ticket {
    Ticket(sequence << SHARD_BITS | number as u64)
}

/// Returns the sequence number of the event with which a free began.
#[inline]
pub(in crate::ledger) fn began(ticket: Ticket) -> u64 {
    ticket.0 >> SHARD_BITS
}

/// Returns the index of a ticket's shard.
#[inline]
pub(in crate::ledger) fn shard_of_ticket(ticket: Ticket) -> usize {
    (ticket.0 % (1 << SHARD_BITS)) as usize
}

impl Shard {
    #[inline]
    pub(in crate::ledger) fn begin_free(
        &mut self,
        figures: &Figures,
        ticket: Ticket,
        key: &Key,
        caller: &Caller,
    ) {
        let target = match self.find(key) {
            Some(index) => {
                self.entries[index as usize].state = State::InFlight;
                self.lose(figures, index, began(ticket));
                FreeTarget::Known(index)
            }
            None => FreeTarget::Unknown(*key),
        };
        self.in_flight.push(InFlightFree {
            ticket,
            caller: *caller,
            target,
            freed_by: 0,
        });
    }

    /// Ends the free that `is_it` selects. `is_done` is called with the record that a free has
    /// released, and says whether the free is complete.
    #[inline]
    pub(in crate::ledger) fn end_free(
        &mut self,
        figures: &Figures,
        succeeded: bool,
        is_it: impl Fn(&Self, &InFlightFree) -> bool,
        is_done: impl Fn(&Record, Caller) -> bool,
    ) -> FreeEnd {
        let at = self.in_flight.iter().position(|free| is_it(self, free));
        let Some(at) = at else {
            return FreeEnd::Elsewhere;
        };
        let InFlightFree { target, caller, .. } = &self.in_flight[at];
        let (FreeTarget::Known(index), true) = (target, succeeded) else {
            let free = self.in_flight.swap_remove(at);
            return self.end_otherwise(figures, succeeded, free);
        };
        let (index, caller) = (*index, *caller);
        self.in_flight.swap_remove(at);
        let record = self.release(index);
        if is_done(record, caller) {
            return FreeEnd::Done;
        }
        FreeEnd::Pending(EndedFree {
            key: record.key(),
            caller,
            record: Some(*record),
        })
    }

    /// Ends a free that failed, or whose target is not the record at a known position.
    #[cold]
    fn end_otherwise(&mut self, figures: &Figures, succeeded: bool, free: InFlightFree) -> FreeEnd {
        let key = self.key_of(&free);
        let caller = free.caller;
        let record = match free.target {
            FreeTarget::Known(index) => self.put_back(figures, index, free.freed_by),
            // The driver would not have used the address again if it had not been free.
            FreeTarget::Reused(record) => succeeded.then_some(*record),
            FreeTarget::Unknown(key) => {
                if succeeded {
                    self.freed_unknown(figures, began(free.ticket), key);
                }
                None
            }
        };
        FreeEnd::Pending(EndedFree {
            key,
            caller,
            record,
        })
    }

    pub(in crate::ledger) fn key_of(&self, free: &InFlightFree) -> Key {
        match &free.target {
            FreeTarget::Known(index) => self.entries[*index as usize].record.key(),
            FreeTarget::Reused(record) => record.key(),
            FreeTarget::Unknown(key) => *key,
        }
    }

    /// Moves the record at this position, which a free in flight removed, to that free, because its
    /// key is used again.
    #[cold]
    pub(super) fn reuse(&mut self, index: Index) {
        let record = self.entries[index as usize].record;
        let mut frees = self.in_flight.iter_mut();
        let is_it =
            |free: &&mut InFlightFree| matches!(free.target, FreeTarget::Known(it) if it == index);
        if let Some(free) = frees.find(is_it) {
            free.target = FreeTarget::Reused(Box::new(record));
        }
    }

    /// Restores the record that a failed free had removed, unless another free of it has succeeded
    /// in the meantime.
    #[cold]
    fn put_back(&mut self, figures: &Figures, index: Index, freed_by: u64) -> Option<Record> {
        let record = self.entries[index as usize].record;
        if record.sequence < freed_by {
            self.release(index);
            return None;
        }
        self.entries[index as usize].state = State::Live;
        self.gain(figures, index, figures.last(), Entering::Again);
        Some(record)
    }

    /// Handles a successful free of an address that was unknown when the free began. Two threads
    /// may free an address at once: the call that removed the record may fail, while the other one
    /// finds no record and succeeds. The record is then gone, no matter which call ends first.
    #[cold]
    fn freed_unknown(&mut self, figures: &Figures, began: u64, key: Key) {
        let stale = self.get(&key);
        if stale.is_some_and(|record| record.sequence < began) {
            self.take(figures, &key);
            return;
        }
        for other in 0..self.in_flight.len() {
            if self.key_of(&self.in_flight[other]) == key {
                let freed_by = &mut self.in_flight[other].freed_by;
                *freed_by = (*freed_by).max(began);
            }
        }
    }
}
