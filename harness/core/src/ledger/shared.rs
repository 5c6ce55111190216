//! What has more than one owner: objects with counted references, physical memory, and what graphs
//! refer to.
//!
//! Apart from the table, because one call may touch several records here, and one record may need
//! several calls to go. All of it stands behind one lock: these calls are rare, and slow in the
//! driver.

use rustc_hash::FxHashMap;

use super::event::{Caller, Key, Record, Space, Ticket};
use super::graphs::{Graph, Graphs, Launch};
use super::holds::{GivenBack, SharedObjects, TableChange};
use super::physical::{Dropped, Physical};
use super::table::began;

/// Everything that has more than one owner.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) physical: Physical,
    /// Objects that their own keys name.
    pub(super) counted: SharedObjects,
    pub(super) graphs: Graphs,
    pub(super) in_flight: FxHashMap<Ticket, SharedFree>,
    /// The launches in flight that take or free memory, and who launched.
    pub(super) launches: FxHashMap<Ticket, (Launch, Caller)>,
}

/// A call that gives something back, until it ends.
#[derive(Debug)]
pub(super) struct SharedFree {
    pub(super) key: Key,
    pub(super) caller: Caller,
    objects: Vec<GivenBack>,
    physical: Vec<Dropped>,
    /// The graph that had the references to the objects, and all that it holds if the call ends it.
    graph: Option<(Key, Option<Graph>)>,
    /// As for a free of what has one owner: when the last of those began that found nothing under
    /// this key, and succeeded meanwhile.
    freed_by: u64,
}

impl SharedFree {
    /// A call that gives back nothing yet.
    pub(super) fn new(key: Key, caller: Caller) -> Self {
        Self {
            key,
            caller,
            objects: Vec::new(),
            physical: Vec::new(),
            graph: None,
            freed_by: 0,
        }
    }

    /// Whether it gives back anything that is known.
    pub(super) fn is_known(&self) -> bool {
        self.graph.is_some() || self.records().next().is_some()
    }

    /// Whether everything that it gives back was freed by other calls meanwhile.
    pub(super) fn was_freed(&self) -> bool {
        let oldest = self.records().map(|record| record.sequence).min();
        oldest.is_some_and(|oldest| oldest < self.freed_by)
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        let physical = self.physical.iter().map(|dropped| &dropped.taken.record);
        physical.chain(self.objects.iter().map(|taken| &taken.record))
    }
}

impl Shared {
    /// A successful call made an object, or one reference more to what is imported already.
    pub(super) fn created(&mut self, record: Record, changes: &mut Vec<TableChange>) {
        let key = record.key();
        if key.space == Space::PhysicalHandle {
            self.physical.created(record, changes);
        } else if key.space == Space::IpcPointer && self.counted.is_held(&key) {
            self.counted.enter_again(record, changes);
        } else {
            self.counted.enter(record, changes);
        }
    }

    /// Whether a call is in flight that gives something back.
    pub(super) fn has_frees_in_flight(&self) -> bool {
        !self.in_flight.is_empty() || !self.launches.is_empty()
    }

    /// A call begins to give `count` references back.
    pub(super) fn give_back(
        &mut self,
        free: &mut SharedFree,
        count: u64,
        changes: &mut Vec<TableChange>,
    ) {
        let key = free.key;
        if key.space == Space::PhysicalHandle {
            free.physical
                .extend(self.physical.release_began(key.value, changes));
        } else {
            free.objects.extend(self.counted.take(&key, count, changes));
        }
    }

    /// A call begins to give back `count` references that `graph` has.
    pub(super) fn give_back_of_graph(
        &mut self,
        free: &mut SharedFree,
        graph: Key,
        count: u64,
        changes: &mut Vec<TableChange>,
    ) {
        free.graph = Some((graph, None));
        let count = self.graphs.released(&graph, &free.key, count);
        if count != 0 {
            let taken = self.counted.take(&free.key, count, changes);
            free.objects.extend(taken);
        }
    }

    /// A call begins to unmap `bytes`.
    pub(super) fn unmap(
        &mut self,
        free: &mut SharedFree,
        bytes: u64,
        changes: &mut Vec<TableChange>,
    ) {
        free.physical = self.physical.unmap_began(free.key.value, bytes, changes);
    }

    /// A call begins to end a graph.
    pub(super) fn end_graph(&mut self, free: &mut SharedFree, changes: &mut Vec<TableChange>) {
        if let Some(held) = self.graphs.take(&free.key) {
            let objects = held.objects();
            let taken = objects.filter_map(|(key, count)| self.counted.take(key, *count, changes));
            free.objects = taken.collect();
            free.graph = Some((free.key, Some(held)));
        }
    }

    /// A graph has `count` references more to what `key` names, or has got them from the program.
    pub(super) fn graph_retained(
        &mut self,
        graph: Key,
        key: Key,
        count: u64,
        moved: bool,
        is_known: bool,
        changes: &mut Vec<TableChange>,
    ) {
        match (is_known && self.counted.is_held(&key), moved) {
            (true, true) => self.graphs.retained(graph, key, count),
            (true, false) => {
                self.graphs.retained(graph, key, count);
                self.counted.add(&key, count);
            }
            // A graph inside another, or one from before: nobody knows when it ends.
            (false, true) => self.counted.give_back(&key, count, changes),
            (false, false) => {}
        }
    }

    /// `to` was made from `from` and holds the same.
    pub(super) fn graph_copied(
        &mut self,
        from: &Key,
        to: Key,
        auto_free: bool,
        changes: &mut Vec<TableChange>,
    ) {
        let before = self.graphs.copied(from, to, auto_free);
        self.refer_instead(&to, before, changes);
    }

    /// An executable graph refers to what `graph` refers to.
    pub(super) fn graph_updated(&mut self, exec: Key, graph: &Key, changes: &mut Vec<TableChange>) {
        let before = self.graphs.updated(exec, graph);
        self.refer_instead(&exec, Some(before), changes);
    }

    /// Counts the references that `graph` has got, and gives those back that it had `before`.
    fn refer_instead(
        &mut self,
        graph: &Key,
        before: Option<Graph>,
        changes: &mut Vec<TableChange>,
    ) {
        if let Some(graph) = self.graphs.get(graph) {
            for (key, count) in graph.objects() {
                self.counted.add(key, *count);
            }
        }
        for (key, count) in before.iter().flat_map(Graph::objects) {
            self.counted.give_back(key, *count, changes);
        }
    }

    /// A call has succeeded. Answers with the objects that are gone for good.
    pub(super) fn commit(&mut self, free: SharedFree) -> Vec<Record> {
        let mut gone = Vec::new();
        for dropped in free.physical {
            let is_gone = self.physical.commit(dropped);
            gone.extend(is_gone.then_some(dropped.taken.record));
        }
        for taken in free.objects {
            let is_gone = self.counted.commit(taken);
            gone.extend(is_gone.then_some(taken.record));
        }
        gone
    }

    /// A call has failed: what it gave back is held as before. Answers with the first of it.
    pub(super) fn put_back(
        &mut self,
        free: SharedFree,
        changes: &mut Vec<TableChange>,
    ) -> Option<Record> {
        let first = free.records().next().copied();
        for dropped in free.physical {
            self.physical.put_back(dropped, changes);
        }
        for taken in &free.objects {
            self.counted.put_back(*taken, changes);
        }
        match free.graph {
            Some((graph, Some(held))) => self.graphs.put_back(graph, held),
            Some((graph, None)) => {
                for taken in free.objects {
                    self.graphs
                        .retained(graph, taken.record.key(), taken.count());
                }
            }
            None => {}
        }
        first
    }

    /// A call that gave back what was not known has succeeded: as for what has one owner, what is
    /// older is gone, whether it was put back by a call that failed or still will be.
    pub(super) fn freed_unknown(
        &mut self,
        ticket: Ticket,
        key: &Key,
        changes: &mut Vec<TableChange>,
    ) {
        let began = began(ticket);
        let is_stale = if matches!(key.space, Space::PhysicalHandle | Space::Mapping) {
            self.physical.released_unknown(key, began, changes)
        } else {
            let is_stale = self.counted.is_held_since_before(key, began);
            if is_stale {
                self.counted.give_back(key, 1, changes);
            }
            is_stale
        };
        if !is_stale {
            let others = self.in_flight.values_mut().filter(|it| it.key == *key);
            others.for_each(|it| it.freed_by = it.freed_by.max(began));
        }
    }
}
