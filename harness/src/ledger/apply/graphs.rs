//! Events about what graphs hold.

use super::{Caller, CuResult, DEINITIALIZED, Ledger, Ticket};
use crate::ledger::event::Key;

impl Ledger {
    pub(super) fn graph_retained(&self, graph: Key, key: Key, count: u64, moved: bool) {
        let is_known = self.table.get(&graph).is_some();
        self.change(|state, changes| {
            state.graph_retained(graph, key, count, moved, is_known, changes);
        });
    }

    pub(super) fn graph_copied(&self, from: Key, to: Key) {
        self.change(|state, changes| state.graph_copied(&from, to, changes));
    }

    pub(super) fn graph_updated(&self, exec: Key, graph: Key) {
        self.change(|state, changes| state.graph_updated(exec, &graph, changes));
    }

    pub(super) fn graph_end_began(&self, ticket: Ticket, graph: Key) {
        self.change(|state, changes| state.graph_end_began(ticket, graph, changes));
    }

    pub(super) fn graph_end_ended(&self, ticket: Ticket, caller: Caller, error: CuResult) {
        if matches!(error, 0 | DEINITIALIZED) {
            let outcome = self.change(|state, _| state.commit(ticket));
            for record in &outcome.records {
                self.returned(record, caller);
            }
        } else {
            self.change(|state, changes| state.put_back(ticket, changes));
        }
    }
}

#[cfg(test)]
mod tests;
