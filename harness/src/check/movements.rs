//! All allocations and frees in a recording with their times, for viewers that show memory over
//! time.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::{fs, io};

use super::replay::{error_at, frames_of};
use crate::call_site::site_of;
use crate::capture::recording::Line;
use crate::capture::replay::{Replayed, replay};
use crate::ledger::event::{Event, Key};
use crate::ledger::{Kind, Layer, Ledger, Place, Record, StackId};
use crate::report::check_report::{Frame, Site};

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
        Replayed::Event(event, at_us) => {
            reader.event(event, at_us);
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
    /// The indices of the live allocations by place and first address. If an address has several,
    /// the last one is the right one.
    by_address: BTreeMap<(Place, u64), Vec<usize>>,
    /// For each key that is being freed, the time at which the call began.
    frees: HashMap<Key, u64>,
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
            by_address: BTreeMap::new(),
            frees: HashMap::new(),
            now: 0,
        }
    }

    /// Adds the changes that `event` has made. The ledger has just applied the event.
    fn event(&mut self, event: &Event, at_us: u64) {
        self.now = at_us;
        match event {
            Event::Created(made) => self.look_at(made.key),
            // The record has left the table, but may return to it.
            Event::FreeBegan { key, .. } => {
                self.frees.insert(*key, self.now);
            }
            Event::FreeEnded { .. } | Event::FreeCaptured { .. } => {
                let keys: Vec<_> = self.frees.keys().copied().collect();
                // If several frees are in flight, it is unknown which one has ended.
                if keys.len() == 1 {
                    self.look_at(keys[0]);
                    self.frees.clear();
                } else {
                    self.look_at_all();
                }
            }
            Event::CreationFailed { .. } | Event::ContextCreated { .. } => {}
            _ => self.look_at_all(),
        }
    }

    fn look_at(&mut self, key: Key) {
        let is = self.ledger.get(&key);
        let was = self.live.get(&key).copied();
        let is_same =
            |record: &Record| was.is_some_and(|(sequence, _)| sequence == record.sequence);
        if let Some((_, number)) = was.filter(|_| !is.as_ref().is_some_and(is_same)) {
            self.freed(key, number);
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
            self.look_at(key);
        }
        self.frees.retain(|key, _| self.live.contains_key(key));
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
        let here = self.by_address.entry((made.place, address)).or_default();
        here.push(number);
        self.step(number, StepKind::Allocate, self.now);
    }

    /// Returns the outermost live allocation of another layer that contains all of these bytes.
    fn around(&self, place: Place, layer: Layer, address: u64, bytes: u64) -> Option<usize> {
        let allocations = &self.movements.allocations;
        let has_all = |number: &usize| {
            let other = &allocations[*number];
            let end = other.address.saturating_add(other.bytes);
            other.is_live && other.layer != layer && end >= address.saturating_add(bytes)
        };
        let before = self.by_address.range((place, 0)..=(place, address)).rev();
        // Neighbouring allocations are usually in the same segment, so the search usually ends
        // after a few of them.
        let candidates = before.flat_map(|(_, numbers)| numbers.iter().copied());
        let candidates = candidates.flat_map(|number| [Some(number), allocations[number].inside]);
        let found = candidates.flatten().find(has_all)?;
        Some(allocations[found].inside.unwrap_or(found))
    }

    fn freed(&mut self, key: Key, number: usize) {
        self.live.remove(&key);
        let allocation = &mut self.movements.allocations[number];
        allocation.is_live = false;
        let at = (allocation.place, allocation.address);
        if let Some(here) = self.by_address.get_mut(&at) {
            here.retain(|other| *other != number);
            if here.is_empty() {
                self.by_address.remove(&at);
            }
        }
        let began = self.frees.remove(&key).unwrap_or(self.now);
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
