//! What has more than one owner: objects with counted references, and physical memory.
//!
//! Apart from the table, because one call may touch several records here, and one record may need
//! several calls to go. All of it stands behind one lock: these calls are rare, and slow in the
//! driver.

use crate::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::event::{Key, Space, Ticket};
use super::flights::moment;
use super::graphs::{Graph, Graphs, Launch};
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
    pub(super) graphs: Graphs,
    in_flight: FxHashMap<Ticket, InFlight>,
}

/// What a call gives back, until it ends.
#[derive(Debug)]
enum InFlight {
    Counted(Taken),
    Physical(Vec<Dropped>),
    /// References of a graph; none if it has none that are known.
    OfGraph(Key, Option<Taken>),
    /// Everything that a graph holds.
    Graph(Key, Graph, Vec<Taken>),
    /// What a launch does, and what its free nodes take out of the table.
    Launch(Launch, Vec<Record>),
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
            self.counted.enter_again(record, changes);
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

    /// A graph has `count` references more to what `key` names, or has got them from the program.
    pub(super) fn graph_retained(
        &mut self,
        graph: Key,
        key: Key,
        count: u64,
        moved: bool,
        is_known: bool,
        changes: &mut Vec<Change>,
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

    /// The call with this ticket begins to give `count` references of a graph back.
    pub(super) fn graph_give_back_began(
        &mut self,
        ticket: Ticket,
        graph: Key,
        key: &Key,
        count: u64,
        changes: &mut Vec<Change>,
    ) {
        let count = self.graphs.released(&graph, key, count);
        let taken = if count == 0 {
            None
        } else {
            self.counted.take(key, count, changes)
        };
        self.in_flight
            .insert(ticket, InFlight::OfGraph(graph, taken));
    }

    /// The call with this ticket begins to end a graph.
    pub(super) fn graph_end_began(
        &mut self,
        ticket: Ticket,
        graph: Key,
        changes: &mut Vec<Change>,
    ) {
        if let Some(held) = self.graphs.take(&graph) {
            let objects = held.objects();
            let taken = objects.filter_map(|(key, count)| self.counted.take(key, *count, changes));
            let taken = taken.collect();
            self.in_flight
                .insert(ticket, InFlight::Graph(graph, held, taken));
        }
    }

    /// `to` was made from `from` and holds the same.
    pub(super) fn graph_copied(
        &mut self,
        from: &Key,
        to: Key,
        auto_free: bool,
        changes: &mut Vec<Change>,
    ) {
        let before = self.graphs.copied(from, to, auto_free);
        self.refer_instead(&to, before, changes);
    }

    /// An executable graph refers to what `graph` refers to.
    pub(super) fn graph_updated(&mut self, exec: Key, graph: &Key, changes: &mut Vec<Change>) {
        let before = self.graphs.updated(exec, graph);
        self.refer_instead(&exec, Some(before), changes);
    }

    /// Counts the references that `graph` has got, and gives those back that it had `before`.
    fn refer_instead(&mut self, graph: &Key, before: Option<Graph>, changes: &mut Vec<Change>) {
        if let Some(graph) = self.graphs.get(graph) {
            for (key, count) in graph.objects() {
                self.counted.add(key, *count);
            }
        }
        for (key, count) in before.iter().flat_map(Graph::objects) {
            self.counted.give_back(key, *count, changes);
        }
    }

    /// The launch with this ticket begins; it frees what these records are of.
    pub(super) fn launch_began(&mut self, ticket: Ticket, launch: Launch, freed: Vec<Record>) {
        self.in_flight
            .insert(ticket, InFlight::Launch(launch, freed));
    }

    /// The launch with this ticket has ended.
    pub(super) fn launch_ended(&mut self, ticket: Ticket) -> Option<(Launch, Vec<Record>)> {
        match self.in_flight.remove(&ticket)? {
            InFlight::Launch(launch, freed) => Some((launch, freed)),
            _ => None,
        }
    }

    /// The call with this ticket has succeeded.
    pub(super) fn commit(&mut self, ticket: Ticket) -> Outcome {
        let mut outcome = Outcome::default();
        let in_flight = self.in_flight.remove(&ticket);
        outcome.is_known = in_flight.is_some();
        let counted = match in_flight {
            Some(InFlight::Physical(dropped)) => {
                for dropped in dropped {
                    let is_gone = self.physical.commit(dropped);
                    let record = is_gone.then_some(dropped.taken.record);
                    outcome.records.extend(record);
                }
                return outcome;
            }
            Some(InFlight::Counted(taken)) => vec![taken],
            Some(InFlight::OfGraph(_, taken)) => taken.into_iter().collect(),
            Some(InFlight::Graph(_, _, taken)) => taken,
            Some(InFlight::Launch(..)) | None => Vec::new(),
        };
        for taken in counted {
            let is_gone = self.counted.commit(taken);
            outcome.records.extend(is_gone.then_some(taken.record));
        }
        outcome
    }

    /// When the oldest was made of what the call with this ticket gives back.
    pub(super) fn taken_since(&self, ticket: Ticket) -> Option<u64> {
        let oldest = |taken: &[Taken]| taken.iter().map(|taken| taken.record.sequence).min();
        match self.in_flight.get(&ticket)? {
            InFlight::Physical(dropped) => dropped
                .iter()
                .map(|dropped| dropped.taken.record.sequence)
                .min(),
            InFlight::Counted(taken) => Some(taken.record.sequence),
            InFlight::OfGraph(_, taken) => taken.as_ref().map(|taken| taken.record.sequence),
            InFlight::Graph(_, _, taken) => oldest(taken),
            InFlight::Launch(..) => None,
        }
    }

    /// The call with this ticket has failed: its holds are there as before.
    pub(super) fn put_back(&mut self, ticket: Ticket, changes: &mut Vec<Change>) -> Outcome {
        let mut outcome = Outcome::default();
        let in_flight = self.in_flight.remove(&ticket);
        outcome.is_known = in_flight.is_some();
        let counted = match in_flight {
            Some(InFlight::Physical(dropped)) => {
                for dropped in dropped {
                    self.physical.put_back(dropped, changes);
                    outcome.records.push(dropped.taken.record);
                }
                return outcome;
            }
            Some(InFlight::Counted(taken)) => vec![taken],
            Some(InFlight::OfGraph(graph, taken)) => {
                if let Some(taken) = taken {
                    let key = taken.record.key();
                    self.graphs.retained(graph, key, taken.count());
                }
                taken.into_iter().collect()
            }
            Some(InFlight::Graph(key, graph, taken)) => {
                self.graphs.put_back(key, graph);
                taken
            }
            Some(InFlight::Launch(..)) | None => Vec::new(),
        };
        for taken in counted {
            self.counted.put_back(taken, changes);
            outcome.records.push(taken.record);
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
