//! Resources with more than one owner: reference-counted objects, physical memory, and resources
//! that graphs refer to.
//!
//! These resources are kept apart from the table, because one call may change several records, and
//! one record may end only after several calls. A single lock guards all of them, because these
//! calls are rare, and the driver itself takes a long time to process them.

use rustc_hash::FxHashMap;

use super::event::{Caller, Key, Record, Space, Ticket};
use super::graphs::{Graph, Graphs, Launch};
use super::physical::{Dropped, Physical};
use super::shard::began;

/// All resources with more than one owner.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) physical: Physical,
    pub(super) graphs: Graphs,
    pub(super) in_flight: FxHashMap<Ticket, SharedFree>,
    /// The launches in flight that allocate or free memory, with their callers.
    pub(super) launches: FxHashMap<Ticket, (Launch, Caller)>,
}

/// A free of shared resources that is in progress.
#[derive(Debug)]
pub(super) struct SharedFree {
    pub(super) key: Key,
    pub(super) caller: Caller,
    dropped: Vec<Dropped>,
    /// The graph that had the references and, if the call ends the graph, everything that the graph
    /// holds.
    graph: Option<(Key, Option<Graph>)>,
    /// The sequence number of the event with which another free of this key began, if the other
    /// free found nothing and has succeeded in the meantime. Otherwise 0. `InFlightFree` has the
    /// same field for resources with one owner.
    freed_by: u64,
}

impl SharedFree {
    /// Creates the state of a call that has not released anything yet.
    pub(super) fn new(key: Key, caller: Caller) -> Self {
        Self {
            key,
            caller,
            dropped: Vec::new(),
            graph: None,
            freed_by: 0,
        }
    }

    /// Whether the call frees anything that is known.
    pub(super) fn is_known(&self) -> bool {
        self.graph.is_some() || self.records().next().is_some()
    }

    /// Whether other calls have freed everything that this call was to free.
    pub(super) fn was_freed(&self) -> bool {
        let oldest = self.records().map(|record| record.sequence).min();
        oldest.is_some_and(|oldest| oldest < self.freed_by)
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        self.dropped.iter().map(|dropped| &dropped.taken.record)
    }
}

impl Shared {
    /// Records that a call created an object, or added a reference to an object that is already
    /// imported.
    pub(super) fn created(&mut self, record: Record) {
        let key = record.key();
        if key.space == Space::PhysicalHandle {
            self.physical.created(record);
        } else if key.space == Space::IpcPointer && self.physical.holds.is_held(&key) {
            self.physical.holds.enter_again(record);
        } else {
            self.physical.holds.enter(record);
        }
    }

    pub(super) fn has_frees_in_flight(&self) -> bool {
        !self.in_flight.is_empty() || !self.launches.is_empty()
    }

    /// Begins a call that releases `count` references.
    pub(super) fn release(&mut self, free: &mut SharedFree, count: u64) {
        free.dropped.extend(match free.key.space {
            Space::PhysicalHandle => self.physical.release_began(free.key.value()),
            _ => self.physical.take(&free.key, count),
        });
    }

    /// Begins a call that releases `count` references of `graph`.
    pub(super) fn release_of_graph(&mut self, free: &mut SharedFree, graph: Key, count: u64) {
        free.graph = Some((graph, None));
        let count = self.graphs.released(&graph, &free.key, count);
        if count != 0 {
            free.dropped.extend(self.physical.take(&free.key, count));
        }
    }

    /// Begins a call that unmaps `bytes` bytes.
    pub(super) fn unmap(&mut self, free: &mut SharedFree, bytes: u64) {
        free.dropped = self.physical.unmap_began(free.key.value(), bytes);
    }

    /// Begins a call that ends a graph.
    pub(super) fn end_graph(&mut self, free: &mut SharedFree) {
        if let Some(held) = self.graphs.all.remove(&free.key) {
            let objects = held.objects();
            let dropped = objects.filter_map(|(key, count)| self.physical.take(key, *count));
            free.dropped = dropped.collect();
            free.graph = Some((free.key, Some(held)));
        }
    }

    /// Records that a graph has `count` more references to the object under `key`, which are new or
    /// were moved from the program.
    pub(super) fn graph_retained(
        &mut self,
        graph: Key,
        key: Key,
        count: u64,
        moved: bool,
        is_known: bool,
    ) {
        match (is_known && self.physical.holds.is_held(&key), moved) {
            (true, true) => self.graphs.retained(graph, key, count),
            (true, false) => {
                self.graphs.retained(graph, key, count);
                self.physical.holds.add(&key, count);
            }
            // If the graph is unknown, it is a child graph or existed before the harness began to
            // listen, so its end cannot be observed.
            (false, true) => self.physical.holds.release(&key, count),
            (false, false) => {}
        }
    }

    /// Records that `to` was created from `from` and holds the same resources.
    pub(super) fn graph_copied(&mut self, from: &Key, to: Key, auto_free: bool) {
        let before = self.graphs.copied(from, to, auto_free);
        self.refer_instead(&to, before);
    }

    /// Records that an executable graph refers to the same resources as `graph`.
    pub(super) fn graph_updated(&mut self, exec: Key, graph: &Key) {
        let before = self.graphs.updated(exec, graph);
        self.refer_instead(&exec, before);
    }

    /// Adds the references that `graph` has now, and releases those that it had `before`.
    fn refer_instead(&mut self, graph: &Key, before: Option<Graph>) {
        if let Some(graph) = self.graphs.all.get(graph) {
            for (key, count) in graph.objects() {
                self.physical.holds.add(key, *count);
            }
        }
        self.release_references(before);
    }

    /// Forgets the nodes of a graph or of a capture, and releases its references.
    pub(super) fn forget_graph(&mut self, graph: &Key) {
        let gone = self.graphs.all.remove(graph);
        self.release_references(gone);
    }

    fn release_references(&mut self, graph: Option<Graph>) {
        for (key, count) in graph.iter().flat_map(Graph::objects) {
            self.physical.holds.release(key, *count);
        }
    }

    /// Completes a successful call. Returns the records that are gone.
    pub(super) fn commit(&mut self, free: SharedFree) -> Vec<Record> {
        let taken = free.dropped.into_iter().map(|dropped| dropped.taken);
        let gone = taken.filter(|taken| self.physical.holds.commit(*taken));
        gone.map(|taken| taken.record).collect()
    }

    /// Restores the resource that a failed call should have freed. Returns its first record.
    pub(super) fn put_back(&mut self, free: SharedFree) -> Option<Record> {
        let first = free.records().next().copied();
        for dropped in &free.dropped {
            self.physical.put_back(*dropped);
        }
        match free.graph {
            Some((graph, Some(held))) => {
                self.graphs.all.entry(graph).or_insert(held);
            }
            Some((graph, None)) => {
                for Dropped { taken, .. } in free.dropped {
                    self.graphs.retained(graph, taken.record.key(), taken.count);
                }
            }
            None => {}
        }
        first
    }

    /// Handles a successful free of something unknown. As with resources that have one owner,
    /// anything older is gone, whether a failed call has already restored it or will do so later.
    pub(super) fn freed_unknown(&mut self, ticket: Ticket, key: &Key) {
        let began = began(ticket);
        let is_stale = if matches!(key.space, Space::PhysicalHandle | Space::Mapping) {
            self.physical.released_unknown(key, began)
        } else {
            let is_stale = self.physical.holds.is_held_since_before(key, began);
            if is_stale {
                self.physical.holds.release(key, 1);
            }
            is_stale
        };
        if !is_stale {
            let others = self.in_flight.values_mut().filter(|it| it.key == *key);
            others.for_each(|it| it.freed_by = it.freed_by.max(began));
        }
    }
}
