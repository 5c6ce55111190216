//! The frees of a shard's records that have begun and not ended.

use std::mem;

use super::{Entering, Index, SHARDS, Shard, State};
use crate::ledger::event::{Caller, Key, Record, Ticket};
use crate::ledger::figures::Figures;
use crate::sync::atomic::{AtomicBool, Ordering};

/// A free in flight.
#[derive(Clone, Copy, Debug)]
pub(in crate::ledger) struct InFlightFree {
    pub(in crate::ledger) ticket: Ticket,
    caller: Caller,
    target: FreeTarget,
    /// The beginning of the last free of the same address that found no record and succeeded while
    /// this one was in flight: it freed what was created before.
    freed_by: u64,
}

/// What a free in flight frees.
#[derive(Clone, Copy, Debug)]
enum FreeTarget {
    /// The record at this position, which it removed.
    Known(Index),
    /// Something that had no record when it began.
    Unknown(Key),
}

/// How a free ended.
#[derive(Clone, Copy, Debug)]
pub(in crate::ledger) enum FreeEnd {
    /// It is not in flight here.
    Elsewhere,
    /// It freed a record for which nothing else is to be done.
    Quick,
    /// It freed something else, or failed.
    Slow(EndedFree),
}

/// What the end of a free needs to know of it.
#[derive(Clone, Copy, Debug)]
pub(in crate::ledger) struct EndedFree {
    pub(in crate::ledger) key: Key,
    pub(in crate::ledger) caller: Caller,
    /// What it freed if it succeeded, `None` for an unknown address; otherwise what is still live,
    /// `None` if another call has freed it.
    pub(in crate::ledger) record: Option<Record>,
}

/// How many frees in flight of a shard can end without its lock.
const QUICK: usize = 8;

/// Which of the quick frees in flight have succeeded since the shard was last locked.
#[derive(Debug, Default)]
pub(in crate::ledger) struct Successes([AtomicBool; QUICK]);

/// What a ticket consists of, from its lowest digit: the number of the shard, one more than that of the
/// quick free or 0 for another one, and the event with which it began.
const DIGITS: [u64; 2] = [SHARDS as u64, QUICK as u64 + 1];

/// Returns the ticket of a free that began with the event `sequence` in the shard `number`.
pub(in crate::ledger) fn ticket(sequence: u64, number: usize) -> Ticket {
    Ticket(sequence * DIGITS[0] * DIGITS[1] + number as u64)
}

/// Returns the number of the event with which a free began.
pub(in crate::ledger) fn began(ticket: Ticket) -> u64 {
    ticket.0 / (DIGITS[0] * DIGITS[1])
}

/// Returns the number of its shard.
pub(in crate::ledger) fn shard_of(ticket: Ticket) -> usize {
    (ticket.0 % DIGITS[0]) as usize
}

/// Returns the number of a quick free.
fn quick(ticket: Ticket) -> Option<usize> {
    let digit = ticket.0 / DIGITS[0] % DIGITS[1];
    (digit as usize).checked_sub(1)
}

impl Successes {
    /// Ends a free that succeeded, if it can end without the lock.
    pub(in crate::ledger) fn end(&self, ticket: Ticket) -> bool {
        let quick = quick(ticket);
        if let Some(quick) = quick {
            self.0[quick].store(true, Ordering::Release);
        }
        quick.is_some()
    }
}

impl Shard {
    /// Removes the quick frees that have succeeded. Whoever locks a shard begins with this.
    #[inline]
    pub(in crate::ledger) fn collect(&mut self, successes: &Successes) {
        if self.quick != 0 {
            self.collect_each(successes);
        }
    }

    fn collect_each(&mut self, successes: &Successes) {
        for at in (0..self.in_flight.len()).rev() {
            let InFlightFree { ticket, target, .. } = self.in_flight[at];
            if let (Some(quick), FreeTarget::Known(index)) = (quick(ticket), target)
                && successes.0[quick].load(Ordering::Acquire)
            {
                successes.0[quick].store(false, Ordering::Relaxed);
                self.remove_in_flight(at);
                self.release(index);
            }
        }
    }

    fn remove_in_flight(&mut self, at: usize) -> InFlightFree {
        let free = self.in_flight.swap_remove(at);
        if let Some(quick) = quick(free.ticket) {
            self.quick &= !(1 << quick);
        }
        free
    }

    /// Begins a free, and returns its ticket. It may be quick if `can_be_quick` holds for its record.
    pub(in crate::ledger) fn begin_free(
        &mut self,
        figures: &Figures,
        mut ticket: Ticket,
        key: &Key,
        caller: Caller,
        can_be_quick: impl Fn(&Record, Caller) -> bool,
    ) -> Ticket {
        let target = match self.find(key) {
            Some(index) => {
                let unused = self.quick.trailing_ones() as usize;
                if unused < QUICK && can_be_quick(&self.entries[index as usize].record, caller) {
                    self.quick |= 1 << unused;
                    ticket.0 += DIGITS[0] * (unused as u64 + 1);
                }
                self.entries[index as usize].state = State::InFlight;
                self.lose(figures, index, began(ticket));
                FreeTarget::Known(index)
            }
            None => FreeTarget::Unknown(*key),
        };
        self.in_flight.push(InFlightFree {
            ticket,
            caller,
            target,
            freed_by: 0,
        });
        ticket
    }

    /// Ends the free that `is_it` selects.
    pub(in crate::ledger) fn end_free(
        &mut self,
        figures: &Figures,
        succeeded: bool,
        is_it: impl Fn(&Self, &InFlightFree) -> bool,
    ) -> FreeEnd {
        let at = self.in_flight.iter().position(|free| is_it(self, free));
        let Some(at) = at else {
            return FreeEnd::Elsewhere;
        };
        let free = self.remove_in_flight(at);
        let key = self.key_of(&free);
        let record = match free.target {
            FreeTarget::Known(index) if succeeded => Some(*self.release(index)),
            FreeTarget::Known(index) => self.put_back(figures, &free, index),
            FreeTarget::Unknown(_) => {
                if succeeded {
                    self.freed_unknown(figures, &free);
                }
                None
            }
        };
        FreeEnd::Slow(EndedFree {
            key,
            caller: free.caller,
            record,
        })
    }

    pub(in crate::ledger) fn key_of(&self, free: &InFlightFree) -> Key {
        match free.target {
            FreeTarget::Known(index) => self.entries[index as usize].record.key(),
            FreeTarget::Unknown(key) => key,
        }
    }

    /// Makes what a failed free had removed live again. The driver still owns it, so no other
    /// allocation can have its address, unless another free of it succeeded meanwhile.
    #[cold]
    fn put_back(&mut self, figures: &Figures, free: &InFlightFree, index: Index) -> Option<Record> {
        let record = self.entries[index as usize].record;
        let is_there = record.sequence >= free.freed_by;
        let key = record.key();
        if !is_there || self.find(&key).is_some() {
            self.release(index);
            return None;
        }
        let displaced = mem::replace(&mut self.entries[index as usize].state, State::Live);
        if displaced == State::Displaced
            && let Some(other) = self.index.insert(key, index)
        {
            match &mut self.entries[other as usize].state {
                state @ State::InFlight => *state = State::Displaced,
                _ => {
                    self.free -= 1;
                    self.unused.push(other);
                }
            }
        }
        self.gain(figures, index, figures.last(), Entering::Again);
        Some(record)
    }

    /// Handles a successful free of an address that was unknown when it began. Two threads may free
    /// an address at once: the one that removed the record fails, and the other finds nothing and
    /// succeeds. Then the record is gone, whichever of them ends first.
    #[cold]
    fn freed_unknown(&mut self, figures: &Figures, free: &InFlightFree) {
        let (began, key) = (began(free.ticket), self.key_of(free));
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
