//! Applies events about resources with more than one owner.

use std::mem;

use rustc_hash::FxHashMap;

use super::{Caller, Creation, CuResult, Ledger, Record, StackId, Ticket, succeeded};
use crate::ledger::event::Key;
use crate::ledger::holds::TableChange;
use crate::ledger::physical::Holding;
use crate::ledger::shared::{Shared, SharedFree};
use crate::ledger::{Anomaly, FailedCall};
use crate::recursion_guard::quiet;
use crate::sync::{MutexGuard, locked};

impl Ledger {
    /// Returns the holders of each object of physical memory.
    pub fn holdings(&self) -> FxHashMap<Key, Holding> {
        let _quiet = quiet();
        self.shared().physical.holdings()
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        locked(&self.shared)
    }

    #[inline(never)]
    pub(super) fn shared_created(&self, made: Creation) {
        self.table.allocated(&made.key, made.caller);
        self.change(|shared| {
            let sequence = self.table.figures.number();
            shared.created(Record { sequence, made });
        });
    }

    #[inline(never)]
    pub(super) fn release_began(
        &self,
        key: Key,
        count: u64,
        graph: Option<Key>,
        caller: Caller,
    ) -> Ticket {
        self.shared_free_began(key, caller, |shared, free| match graph {
            Some(graph) => shared.release_of_graph(free, graph, count),
            None => shared.release(free, count),
        })
    }

    pub(super) fn shared_free_began(
        &self,
        key: Key,
        caller: Caller,
        begin: impl FnOnce(&mut Shared, &mut SharedFree),
    ) -> Ticket {
        let mut free = SharedFree::new(key, caller);
        self.change(|shared| {
            let ticket = self.table.ticket();
            begin(shared, &mut free);
            shared.in_flight.insert(ticket, free);
            ticket
        })
    }

    /// Handles the end of a call whose beginning the table does not know.
    #[inline(never)]
    pub(super) fn shared_free_ended(&self, ticket: Ticket, error: CuResult, stack: StackId) {
        let gone = self.change(|shared| {
            let free = shared.in_flight.remove(&ticket)?;
            let (key, caller) = (free.key, free.caller);
            if succeeded(error) {
                if !free.is_known() {
                    self.count_unknown_free();
                    shared.freed_unknown(ticket, &key);
                }
                return Some((caller, shared.commit(free)));
            }
            let record = if free.was_freed() {
                shared.commit(free);
                None
            } else {
                shared.put_back(free)
            };
            self.anomalies.push(Anomaly::FailedFree(FailedCall {
                key,
                record,
                caller: Caller { stack, ..caller },
                error,
            }));
            None
        });
        self.all_freed(gone);
    }

    /// Handles the end of a call that has freed all of these records.
    pub(super) fn all_freed(&self, gone: Option<(Caller, Vec<Record>)>) {
        if let Some((caller, gone)) = gone {
            gone.iter().for_each(|record| self.freed(record, caller));
        }
    }

    /// Restores the resource that a call should have released, if the resource can have several
    /// owners.
    pub(super) fn put_back_shared(&self, ticket: Ticket) {
        self.change(|shared| {
            let free = shared.in_flight.remove(&ticket)?;
            shared.put_back(free)
        });
    }

    /// Forgets the other owners of a record that ended with its context. Returns the records of the
    /// earlier calls that opened the same resource.
    pub(super) fn forget_shared(&self, record: &Record) -> Vec<Record> {
        match record.key().space.is_shared() {
            true => self.shared().physical.holds.forget(&record.key()),
            false => Vec::new(),
        }
    }

    /// Changes the shared resources and the table together. The lock is held until both agree.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Shared) -> T) -> T {
        let mut shared = self.shared();
        let answer = change(&mut shared);
        for change in mem::take(&mut shared.physical.holds.changes) {
            match change {
                TableChange::Entered(record, entering) => {
                    self.table.enter(&record, entering);
                    if self.end_if_too_late(&record) {
                        shared.physical.holds.forget(&record.key());
                    }
                }
                // The record may already have ended with its context.
                TableChange::Left(record) => {
                    self.table.take_if(&record.key(), |_| true);
                }
                TableChange::Overwritten(record) => {
                    self.table.take_if(&record.key(), |_| true);
                    self.anomalies
                        .push(Anomaly::Overwritten { record, by: None });
                }
            }
        }
        answer
    }
}

#[cfg(test)]
mod tests;
