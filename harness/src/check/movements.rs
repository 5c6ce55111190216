//! All allocations and frees in a recording with their times, for viewers that show memory over
//! time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::{fs, io};

use super::replay::{error_at, frames_of};
use crate::call_site::site_of;
use crate::capture::recording::Line;
use crate::capture::replay::{Replayed, replay};
use crate::ledger::event::{Event, Key, Ticket};
use crate::ledger::{Kind, Layer, Ledger, Place, Record, StackId};
use crate::report::check_report::{Frame, Site};

/// How many allocations of a layer are examined to find the one that contains a block. Those of one
/// layer rarely overlap, so it is nearly always the nearest one.
const NEIGHBOURS: usize = 16;

/// All allocations and frees in a recording.
#[derive(Clone, Debug, Default)]
pub struct Movements {
    /// The allocations, in order. Resources that have a handle but no bytes are not included.
    pub allocations: Vec<RecordedAllocation>,
    /// The steps in their lives, in order.
    pub steps: Vec<Step>,
}

/// An allocation.
#[derive(Clone, Debug)]
pub struct RecordedAllocation {
    /// The place of the allocation.
    pub place: Place,
    /// The layer of the allocation.
    pub layer: Layer,
    /// The kind of resource.
    pub kind: Kind,
    /// The first address of the allocation.
    pub address: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// The handle of the stream for a stream-ordered allocation; otherwise 0.
    pub stream: u64,
    /// The call site.
    pub site: Site,
    /// The index of the allocation that contains this one. It belongs to another layer.
    pub inside: Option<usize>,
    /// Whether the allocation was live when the recording ended.
    pub is_live: bool,
}

/// A step in the life of an allocation.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The index of the allocation in [`Movements::allocations`].
    pub allocation: usize,
    /// The kind of step.
    pub kind: StepKind,
    /// The time in microseconds since 1970.
    pub at_us: u64,
}

/// The kinds of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// The allocation was made.
    Allocate,
    /// A call that frees the allocation began.
    BeginFree,
    /// The allocation was freed.
    Free,
}

/// Reads the recording at `path`.
///
/// # Errors
///
/// The errors are those of [`recording::replay`](crate::recording::replay).
pub fn movements(path: &Path) -> io::Result<Movements> {
    let recording = fs::read(path)?;
    let ledger = Ledger::new();
    let mut reader = MovementsReader::new(&ledger);
    replay(&recording, &ledger, |item| match item {
        Replayed::Line(line) => {
            if let Line::Symbol(symbol) = line {
                reader.symbols.insert(symbol.address, symbol.frames);
            }
            Ok(())
        }
        Replayed::Event(event, ticket, at_us) => {
            reader.event(event, ticket, at_us);
            Ok(())
        }
    })
    .map_err(|wrong| error_at(path, &wrong))?;
    Ok(reader.finish())
}

struct MovementsReader<'ledger> {
    ledger: &'ledger Ledger,
    symbols: HashMap<usize, Vec<Frame>>,
    movements: Movements,
    /// The backtrace of each allocation.
    stacks: Vec<StackId>,
    /// For each key, the sequence number in the ledger and the index of its live allocation.
    live: HashMap<Key, (u64, usize)>,
    layers: BTreeSet<Layer>,
    /// The indices of the live allocations by layer, place and first address. If an address has
    /// several, the last one is the right one.
    by_address: BTreeMap<(Layer, Place, u64), Vec<usize>>,
    /// The frees in flight: the key, and the time at which the call began.
    frees: HashMap<Ticket, (Key, u64)>,
    now: u64,
}

impl<'ledger> MovementsReader<'ledger> {
    fn new(ledger: &'ledger Ledger) -> Self {
        Self {
            ledger,
            symbols: HashMap::new(),
            movements: Movements::default(),
            stacks: Vec::new(),
            live: HashMap::new(),
            layers: BTreeSet::new(),
            by_address: BTreeMap::new(),
            frees: HashMap::new(),
            now: 0,
        }
    }

    /// Adds the changes that `event` has made. The ledger has just applied the event.
    fn event(&mut self, event: &Event, ticket: Option<Ticket>, at_us: u64) {
        self.now = at_us;
        match event {
            Event::Created(made) => self.look_at(made.key, None),
            // The record has left the table, but may return to it.
            Event::FreeBegan { key, .. } => {
                let began = ticket.map(|ticket| (ticket, (*key, self.now)));
                self.frees.extend(began);
            }
            Event::FreeEnded { ticket, .. } | Event::FreeCaptured { ticket } => {
                match self.frees.remove(ticket) {
                    Some((key, began)) if !key.space.is_shared() && !key.space.is_graph() => {
                        self.look_at(key, Some(began));
                    }
                    _ => self.look_at_all(),
                }
            }
            // These events change neither the bytes of a record nor which records are live.
            Event::CreationFailed { .. }
            | Event::ContextCreated { .. }
            | Event::ReleaseBegan { .. }
            | Event::UnmapBegan { .. }
            | Event::LaunchBegan { .. }
            | Event::HandedOver { .. }
            | Event::Bound { .. } => {}
            _ => self.look_at_all(),
        }
    }

    /// Adds the change of the record under `key`. `began` is the time at which the call that has
    /// just ended began, if that call was to free this key.
    fn look_at(&mut self, key: Key, began: Option<u64>) {
        let is = self.ledger.get(&key);
        let was = self.live.get(&key).copied();
        let is_same =
            |record: &Record| was.is_some_and(|(sequence, _)| sequence == record.sequence);
        if let Some((_, number)) = was.filter(|_| !is.as_ref().is_some_and(is_same)) {
            let mut frees = self.frees.values();
            let in_flight = frees.find(|(freed, _)| *freed == key).map(|(_, at)| *at);
            if is.is_none() && in_flight.is_some() {
                // The free may still fail.
                return;
            }
            self.freed(key, number, began.or(in_flight).unwrap_or(self.now));
        }
        if let Some(record) = is.filter(|record| !is_same(record)) {
            self.created(&record);
        }
    }

    fn look_at_all(&mut self) {
        let mut keys: Vec<_> = self.live.keys().copied().collect();
        let is_new = |record: &Record| !self.live.contains_key(&record.key());
        let mut new = self.ledger.select(is_new);
        new.sort_by_key(|record| record.sequence);
        keys.sort_by_key(|key| self.live[key].0);
        keys.extend(new.iter().map(Record::key));
        for key in keys {
            self.look_at(key, None);
        }
    }

    fn created(&mut self, record: &Record) {
        let made = record.made;
        if made.kind.is_handle() || made.bytes == 0 {
            return;
        }
        let number = self.movements.allocations.len();
        let address = made.key.value();
        self.movements.allocations.push(RecordedAllocation {
            place: made.place,
            layer: made.layer,
            kind: made.kind,
            address,
            bytes: made.bytes,
            stream: made.stream,
            site: Site::default(),
            inside: self.around(made.place, made.layer, address, made.bytes),
            is_live: true,
        });
        self.stacks.push(made.caller.stack);
        self.live.insert(made.key, (record.sequence, number));
        self.layers.insert(made.layer);
        let here = (made.layer, made.place, address);
        self.by_address.entry(here).or_default().push(number);
        self.step(number, StepKind::Allocate, self.now);
    }

    /// Returns the outermost live allocation of another layer that contains all of these bytes.
    fn around(&self, place: Place, layer: Layer, address: u64, bytes: u64) -> Option<usize> {
        let allocations = &self.movements.allocations;
        let has_all = |number: &usize| {
            let other = &allocations[*number];
            other.address.saturating_add(other.bytes) >= address.saturating_add(bytes)
        };
        let mut others = self.layers.iter().filter(|other| **other != layer);
        let found = others.find_map(|other| {
            let before = self
                .by_address
                .range((*other, place, 0)..=(*other, place, address));
            let before = before.rev().flat_map(|(_, numbers)| numbers);
            before.take(NEIGHBOURS).copied().find(has_all)
        })?;
        Some(allocations[found].inside.unwrap_or(found))
    }

    fn freed(&mut self, key: Key, number: usize, began: u64) {
        self.live.remove(&key);
        let allocation = &mut self.movements.allocations[number];
        allocation.is_live = false;
        let at = (allocation.layer, allocation.place, allocation.address);
        if let Some(here) = self.by_address.get_mut(&at) {
            here.retain(|other| *other != number);
            if here.is_empty() {
                self.by_address.remove(&at);
            }
        }
        self.step(number, StepKind::BeginFree, began);
        self.step(number, StepKind::Free, self.now);
    }

    fn step(&mut self, allocation: usize, kind: StepKind, at_us: u64) {
        self.movements.steps.push(Step {
            allocation,
            kind,
            at_us,
        });
    }

    fn finish(mut self) -> Movements {
        self.look_at_all();
        let mut known: HashMap<(StackId, Kind), Site> = HashMap::new();
        for (allocation, stack) in self.movements.allocations.iter_mut().zip(&self.stacks) {
            let kind = allocation.kind;
            let site = known
                .entry((*stack, kind))
                .or_insert_with(|| site_of(frames_of(self.ledger, &self.symbols, *stack), kind));
            allocation.site = site.clone();
        }
        self.movements
    }
}

#[cfg(test)]
mod tests;
