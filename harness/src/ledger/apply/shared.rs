//! Events about what has more than one owner.

use rustc_hash::FxHashMap;

use super::put_back::was_freed_since;
use super::{Caller, CuResult, DEINITIALIZED, Flight, Ledger, Record, Ticket};
use crate::ledger::Anomaly;
use crate::ledger::event::{Key, Space};
use crate::ledger::holds::Change;
use crate::ledger::physical::Holding;
use crate::ledger::shared::State;
use crate::quiet::quiet;

impl Ledger {
    /// What holds each object of physical memory.
    #[must_use]
    pub fn holdings(&self) -> FxHashMap<Key, Holding> {
        let _quiet = quiet();
        self.shared.lock().physical.holdings()
    }

    pub(super) fn shared_created(&self, record: Record) {
        self.change(|state, changes| state.created(record, changes));
        let caller = record.made.caller;
        self.stripes.of(caller.thread).took(caller);
    }

    pub(super) fn retained(&self, key: Key, count: u64) {
        self.shared.lock().counted.add(&key, count);
    }

    pub(super) fn handle_retained(&self, handle: u64, address: u64) {
        let now = self.stripes.moment();
        self.change(|state, changes| state.physical.retained(handle, address, now, changes));
    }

    pub(super) fn mapped(&self, address: u64, bytes: u64, handle: u64) {
        let now = self.stripes.moment();
        self.change(|state, changes| {
            let physical = &mut state.physical;
            physical.mapped(address, bytes, handle, now, changes);
        });
    }

    pub(super) fn give_back_began(
        &self,
        key: Key,
        count: u64,
        graph: Option<Key>,
        caller: Caller,
    ) -> Ticket {
        let ticket = self.shared_call_began(key, caller);
        self.change(|state, changes| match graph {
            Some(graph) => state.graph_give_back_began(ticket, graph, &key, count, changes),
            None => state.give_back_began(ticket, &key, count, changes),
        });
        ticket
    }

    pub(super) fn unmap_began(&self, address: u64, bytes: u64, caller: Caller) -> Ticket {
        let key = Key {
            space: Space::Mapping,
            value: address,
        };
        let ticket = self.shared_call_began(key, caller);
        self.change(|state, changes| state.unmap_began(ticket, address, bytes, changes));
        ticket
    }

    pub(super) fn shared_call_began(&self, key: Key, caller: Caller) -> Ticket {
        let flight = Flight {
            key,
            record: None,
            caller,
        };
        let moment = self.stripes.moment();
        self.stripes.of_flight(Ticket(moment)).begin(moment, flight)
    }

    pub(super) fn give_back_ended(
        &self,
        ticket: Ticket,
        key: Key,
        caller: Caller,
        error: CuResult,
    ) {
        if matches!(error, 0 | DEINITIALIZED) {
            let outcome = self.change(|state, _| state.commit(ticket));
            for record in &outcome.records {
                self.returned(record, caller);
            }
            if !outcome.is_known {
                self.freed_unknown(ticket, key);
            }
            return;
        }
        let record = self.holds_put_back(ticket, key);
        self.anomalies.push(Anomaly::FailedRelease {
            key,
            record,
            caller,
            error,
        });
    }

    /// As [`Ledger::put_back`], of what a call gave back.
    fn holds_put_back(&self, ticket: Ticket, key: Key) -> Option<Record> {
        // Held until the holds are there again: see `freed_unknown`.
        let freed = self.lock_freed_unknown();
        let made = self.shared.lock().taken_since(ticket);
        if made.is_some_and(|made| was_freed_since(&freed, ticket, &key, made)) {
            self.change(|state, _| state.commit(ticket));
            return None;
        }
        let outcome = self.change(|state, changes| state.put_back(ticket, changes));
        outcome.records.first().copied()
    }

    /// As [`Ledger::take_stale`], of what has more than one owner.
    pub(super) fn give_back_stale(&self, ticket: Ticket, key: Key) -> bool {
        self.change(|state, changes| state.released_unknown(ticket, &key, changes))
    }

    /// What went with its context had other owners no more than one.
    pub(super) fn forget_shared(&self, record: &Record) {
        if record.key().space.is_shared() {
            self.shared.lock().counted.forget(&record.key());
        }
    }

    /// Changes what is shared, and the table with it: the lock is kept until both agree.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State, &mut Vec<Change>) -> T) -> T {
        let mut state = self.shared.lock();
        let mut changes = Vec::new();
        let answer = change(&mut state, &mut changes);
        for change in changes {
            match change {
                Change::Appeared(record) => {
                    // Counted first, as in `created`.
                    self.count(&record);
                    self.table.insert(record);
                    self.forget_if_too_late(&mut state, &record);
                }
                Change::Reappeared(record) => {
                    self.insert_again(record);
                    self.forget_if_too_late(&mut state, &record);
                }
                Change::Vanished(record) => self.take_shared(&record),
                Change::Overwritten(record) => {
                    self.take_shared(&record);
                    self.anomalies
                        .push(Anomaly::Overwritten { record, by: None });
                }
            }
        }
        answer
    }

    fn forget_if_too_late(&self, state: &mut State, record: &Record) {
        if self.end_if_too_late(record) {
            state.counted.forget(&record.key());
        }
    }

    /// It may have gone with its context already.
    fn take_shared(&self, record: &Record) {
        if let Some(record) = self.table.take(&record.key()) {
            self.forget(&record);
        }
    }
}

#[cfg(test)]
mod tests;
