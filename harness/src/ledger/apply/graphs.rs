//! Events about what graphs hold.

use crate::sync::atomic::Ordering;

use super::{
    Caller, Creation, CuResult, DEINITIALIZED, Flight, Kind, Ledger, Place, Record, Ticket,
};
use crate::ledger::event::{Key, Space};

impl Ledger {
    pub(super) fn graph_retained(&self, graph: Key, key: Key, count: u64, moved: bool) {
        let is_known = self.table.get(&graph).is_some();
        self.change(|state, changes| {
            state.graph_retained(graph, key, count, moved, is_known, changes);
        });
    }

    pub(super) fn graph_copied(&self, from: Key, to: Key, auto_free: bool) {
        self.change(|state, changes| state.graph_copied(&from, to, auto_free, changes));
    }

    pub(super) fn graph_updated(&self, exec: Key, graph: Key) {
        self.change(|state, changes| state.graph_updated(exec, &graph, changes));
    }

    /// Whether launches have to be told: some graph has to do with memory.
    #[must_use]
    pub fn knows_graph_memory(&self) -> bool {
        self.knows_graph_memory.load(Ordering::Relaxed)
    }

    pub(super) fn graph_allocates(&self, graph: Key, mut made: Creation) {
        if made.place == Place::UNKNOWN {
            made.place = self.resolve_place(&made);
        }
        // It comes from the device's graph memory, whatever pool's properties it has, and no
        // stream orders it any more.
        let made = Creation {
            kind: Kind::Graph,
            stream: 0,
            pool: 0,
            ..made
        };
        self.change(|state, _| state.graphs.allocates(graph, made));
        self.knows_graph_memory.store(true, Ordering::Relaxed);
    }

    pub(super) fn graph_frees(&self, graph: Key, address: u64) {
        self.change(|state, _| state.graphs.frees(graph, address));
        self.knows_graph_memory.store(true, Ordering::Relaxed);
    }

    pub(super) fn capture_ended(&self, stream: Key, graph: Option<Key>, is_last: bool) {
        self.change(|state, _| match graph {
            Some(graph) => state.graphs.named(&stream, graph),
            // Its graph is gone, and the name may be another's soon. Of what has no record nothing
            // but captures in progress need to be known.
            None => state.graphs.retain(|known| {
                let is_captured = !known.space.is_graph() || self.table.get(known).is_none();
                *known != stream && !(is_last && is_captured)
            }),
        });
    }

    /// The free nodes' addresses leave the table now, as those of any call that frees.
    pub(super) fn launch_began(&self, exec: Key, caller: Caller) -> Option<Ticket> {
        let launch = self.shared.lock().graphs.launch(&exec)?;
        let ticket = self.shared_call_began(exec, caller);
        let address = |address: &u64| Key {
            space: Space::DevicePointer,
            value: *address,
        };
        let is_graphs = |record: &Record| record.made.kind == Kind::Graph;
        let take = |key: Key| self.table.take_if(&key, is_graphs);
        let freed: Vec<_> = launch.frees.iter().map(address).filter_map(take).collect();
        freed.iter().for_each(|record| self.forget(record));
        self.change(|state, _| state.launch_began(ticket, launch, freed));
        Some(ticket)
    }

    pub(super) fn launch_ended(&self, ticket: Ticket, error: CuResult) {
        let flight = self.stripes.end_flight(ticket);
        let ended = self.change(|state, _| state.launch_ended(ticket));
        let (Some(Flight { caller, .. }), Some((launch, freed))) = (flight, ended) else {
            return;
        };
        if error != 0 {
            for record in freed {
                self.put_back(ticket, record);
            }
            return;
        }
        for record in freed {
            self.returned(&record, caller);
        }
        for made in launch.allocations {
            if launch.auto_free && self.is_left_by_a_launch(&made) {
                continue;
            }
            // The line is the node's; whoever launches takes it.
            let caller = Caller {
                stack: made.caller.stack,
                ..caller
            };
            self.created(&Creation { caller, ..made });
        }
    }

    /// Whether the same node's memory is there from a launch before. A launch that frees it and
    /// takes it again holds no more than before, and leaves it to its owner.
    fn is_left_by_a_launch(&self, made: &Creation) -> bool {
        let live = self.table.get(&made.key);
        live.is_some_and(|live| live.made.kind == Kind::Graph && live.made.bytes == made.bytes)
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
