//! Applies events about the resources that graphs hold.

use crate::sync::atomic::Ordering;

use super::{Caller, Creation, CuResult, Kind, Ledger, Place, Record, Ticket, succeeded};
use crate::ledger::event::{Key, Space};
use crate::ledger::graphs::Graph;
use crate::ledger::shared::SharedFree;

impl Ledger {
    pub(super) fn graph_retained(&self, graph: Key, key: Key, count: u64, moved: bool) {
        let is_known = self.table.get(&graph).is_some();
        self.change(|shared| shared.graph_retained(graph, key, count, moved, is_known));
    }

    pub(super) fn graph_copied(&self, from: Key, to: Key, auto_free: bool) {
        let is_logged = self.table.figures.meters.has_log();
        let usage = self.change(|shared| {
            shared.graph_copied(&from, to, auto_free);
            let graph = shared.graphs.all.get(&to).filter(|_| is_logged);
            graph.map(Graph::usage).unwrap_or_default()
        });
        // A graph is complete once it is instantiated, so its memory is logged then.
        if to.space == Space::Handle(Kind::ExecGraph) {
            self.table.figures.meters.instantiated(usage);
        }
    }

    /// Whether launches must be reported, because some graph allocates or frees memory.
    pub fn knows_graph_memory(&self) -> bool {
        self.knows_graph_memory.load(Ordering::Relaxed)
    }

    pub(super) fn graph_allocates(&self, graph: Key, mut made: Creation) {
        if made.place == Place::UNKNOWN {
            made.place = self.resolve_place(&made);
        }
        // The memory comes from the device's graph memory, no matter what properties the node's
        // pool has, and is no longer stream-ordered.
        let made = Creation {
            kind: Kind::Graph,
            stream: 0,
            pool: 0,
            ..made
        };
        let is_logged = self.table.figures.meters.has_log();
        self.change(|shared| shared.graphs.allocates(graph, made, is_logged));
        self.knows_graph_memory.store(true, Ordering::Relaxed);
    }

    pub(super) fn graph_frees(&self, graph: Key, address: u64) {
        self.change(|shared| shared.graphs.frees(graph, address));
        self.knows_graph_memory.store(true, Ordering::Relaxed);
    }

    pub(super) fn nodes_moved(&self, from: Key, to: Option<Key>) {
        self.change(|shared| match to {
            Some(graph) => shared.graphs.moved(&from, graph),
            None => shared.forget_graph(&from),
        });
    }

    /// Handles the beginning of a launch. The addresses that the graph's nodes free are removed
    /// from the table now, as with any call that frees.
    pub(super) fn launch_began(&self, exec: Key, caller: Caller) -> Option<Ticket> {
        let mut shared = self.shared();
        let launch = shared.graphs.launch(&exec)?;
        let ticket = self.table.ticket();
        let is_graphs = |record: &Record| record.made.kind == Kind::Graph;
        for address in &launch.frees {
            let key = device_pointer(*address);
            self.table.begin_free_if(ticket, &key, caller, is_graphs);
        }
        shared.launches.insert(ticket, (launch, caller));
        Some(ticket)
    }

    pub(super) fn launch_ended(&self, ticket: Ticket, error: CuResult) {
        let Some((launch, caller)) = self.shared().launches.remove(&ticket) else {
            return;
        };
        for address in &launch.frees {
            let key = device_pointer(*address);
            match self.table.end_free_of(ticket, &key, error == 0) {
                Some(record) if error == 0 => self.freed(&record, caller),
                Some(record) => {
                    self.end_if_too_late(&record);
                }
                None => {}
            }
        }
        if error != 0 {
            return;
        }
        for made in launch.allocations {
            if launch.auto_free && self.is_left_by_a_launch(&made) {
                continue;
            }
            // The call site is the node's, but the owner is the scope that launches the graph.
            let caller = Caller {
                stack: made.caller.stack,
                ..caller
            };
            self.created(&Creation { caller, ..made });
        }
    }

    /// Whether a previous launch left the memory of the same node. A launch that frees this memory
    /// and allocates it again holds no more than before, and does not change the owner.
    fn is_left_by_a_launch(&self, made: &Creation) -> bool {
        let live = self.table.get(&made.key);
        live.is_some_and(|live| live.made.kind == Kind::Graph && live.made.bytes == made.bytes)
    }

    /// Records that the free with this ticket ends a graph.
    #[inline(never)]
    pub(super) fn graph_end_began(&self, ticket: Ticket, graph: Key, caller: Caller) {
        let mut free = SharedFree::new(graph, caller);
        self.change(|shared| {
            shared.end_graph(&mut free);
            shared.in_flight.insert(ticket, free);
        });
    }

    pub(super) fn graph_end_ended(&self, ticket: Ticket, error: CuResult) {
        if !succeeded(error) {
            return self.put_back_shared(ticket);
        }
        let ended = self.change(|shared| {
            let free = shared.in_flight.remove(&ticket)?;
            Some((free.caller, shared.commit(free)))
        });
        self.all_freed(ended);
    }
}

fn device_pointer(address: u64) -> Key {
    Key::new(Space::DevicePointer, address)
}

#[cfg(test)]
mod tests;
