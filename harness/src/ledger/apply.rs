//! From events to records: the one door of the ledger.

use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use crate::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::anomaly::{Anomalies, Anomaly};
use super::awaited::Awaited;
use super::contexts::{ContextEntry, Contexts};
use super::counters::Peaks;
use super::event::{Caller, Creation, CuResult, Event, Key, ScopeId, Space, StackId, Ticket};
use super::flights::Flight;
use super::kind::Kind;
use super::meter::Meters;
use super::name::Place;
use super::primaries::Primaries;
use super::record::Record;
use super::shared::Shared;
use super::stack::Stacks;
use super::stripes::Stripes;
use super::table::Table;
use super::tap::Tap;

/// `CUDA_ERROR_DEINITIALIZED`: the driver is shutting down and frees everything itself.
const DEINITIALIZED: CuResult = 4;

/// More references than anything has.
const ALL: u64 = u64::MAX;

/// The table of live resources and what is kept beside it.
#[derive(Debug)]
pub struct Ledger {
    table: Table,
    stripes: Stripes,
    peaks: Peaks,
    /// How many watches there are.
    watching: AtomicUsize,
    /// Keys of addresses the ledger did not know and a call freed with success while some other
    /// release of them may be in flight: see [`Self::put_back`].
    freed_unknown: Mutex<FxHashMap<Key, FreedUnknown>>,
    shared: Shared,
    /// Whether any graph has to do with memory: launches are frequent, and few do.
    knows_graph_memory: AtomicBool,
    unknown_releases: AtomicU64,
    returned: Mutex<FxHashMap<ScopeId, Freed>>,
    handed_over: Mutex<FxHashMap<ScopeId, HandedOver>>,
    stacks: Stacks,
    contexts: Contexts,
    primaries: Primaries,
    meters: Meters,
    anomalies: Anomalies,
    awaited: Awaited,
    /// Whether what no scope made is not a stranger's but the watched program's.
    all_its_own: AtomicBool,
    pub(super) tap: Tap,
}

/// What a scope freed that was there before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returned {
    /// How many.
    pub count: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// What an open scope has freed of what was there before it.
#[derive(Clone, Copy, Debug)]
struct Freed {
    /// When the scope began.
    since: u64,
    returned: Returned,
}

impl Ledger {
    /// A ledger without records. A process has its own in [`live`](super::live).
    #[must_use]
    pub fn new() -> Self {
        Self {
            table: Table::new(),
            stripes: Stripes::new(),
            peaks: Peaks::new(),
            watching: AtomicUsize::new(0),
            freed_unknown: Mutex::default(),
            shared: Shared::default(),
            knows_graph_memory: AtomicBool::new(false),
            unknown_releases: AtomicU64::new(0),
            returned: Mutex::default(),
            handed_over: Mutex::default(),
            stacks: Stacks::new(),
            contexts: Contexts::default(),
            primaries: Primaries::default(),
            meters: Meters::default(),
            anomalies: Anomalies::default(),
            awaited: Awaited::default(),
            all_its_own: AtomicBool::new(false),
            tap: Tap::default(),
        }
    }

    /// Takes one event in. The beginning of a call that gives something back answers with the ticket
    /// that its end names.
    pub fn apply(&self, event: &Event) -> Option<Ticket> {
        if self.tap.is_on() {
            return self.apply_and_tell(event);
        }
        self.take_in(event)
    }

    pub(super) fn take_in(&self, event: &Event) -> Option<Ticket> {
        match *event {
            Event::Created(ref made) => self.created(made),
            Event::CreationFailed {
                kind,
                bytes,
                error,
                caller,
            } => {
                self.anomalies.push(Anomaly::FailedCreation {
                    kind,
                    bytes,
                    caller,
                    error,
                });
            }
            Event::ReleaseBegan { key, caller } => return Some(self.release_began(key, caller)),
            Event::ReleaseEnded {
                ticket,
                error,
                stack,
            } => self.release_ended(ticket, error, stack),
            Event::ReleaseCaptured { ticket } => self.release_captured(ticket),
            Event::Retained { key, count } => self.retained(key, count),
            Event::GiveBackBegan {
                key,
                count,
                graph,
                caller,
            } => return Some(self.give_back_began(key, count, graph, caller)),
            Event::GraphRetained {
                graph,
                key,
                count,
                moved,
            } => self.graph_retained(graph, key, count, moved),
            Event::GraphCopied {
                from,
                to,
                auto_free,
            } => self.graph_copied(from, to, auto_free),
            Event::GraphAllocates { graph, made } => self.graph_allocates(graph, made),
            Event::GraphFrees { graph, address } => self.graph_frees(graph, address),
            Event::CaptureEnded {
                stream,
                graph,
                is_last,
            } => self.capture_ended(stream, graph, is_last),
            Event::LaunchBegan { exec, caller } => return self.launch_began(exec, caller),
            Event::LaunchEnded { ticket, error } => self.launch_ended(ticket, error),
            Event::GraphUpdated { exec, graph } => self.graph_updated(exec, graph),
            Event::HandleRetained { handle, address } => self.handle_retained(handle, address),
            Event::Mapped {
                address,
                bytes,
                handle,
            } => self.mapped(address, bytes, handle),
            Event::UnmapBegan {
                address,
                bytes,
                caller,
            } => return Some(self.unmap_began(address, bytes, caller)),
            Event::HandedOver { address } => self.hand_over(address),
            Event::PrimaryRetained { place, caller } => self.primary_changed(place, caller, 1),
            Event::PrimaryReleased { place, caller } => self.primary_changed(place, caller, -1),
            Event::ContextCreated {
                context,
                handle,
                place,
            } => {
                self.contexts.created(ContextEntry {
                    uid: context,
                    handle,
                    place,
                    scope: ScopeId::NONE,
                });
            }
            Event::ContextDestroyed {
                context,
                cause,
                caller,
            } => {
                self.context_destroyed(context, cause, caller);
            }
        }
        None
    }

    fn created(&self, made: &Creation) {
        let place = match made.place {
            Place::UNKNOWN => self.resolve_place(made),
            place => place,
        };
        let mut record = Record {
            sequence: 0,
            made: Creation { place, ..*made },
        };
        if made.key.space.is_shared() {
            record.sequence = self.stripes.moment();
            self.shared_created(record);
            return;
        }
        let old = self.table.enter(&mut record, |latest, record| {
            // Counted before it can be found: a release or the end of its context on another
            // thread would take away what is not there yet.
            let mut own = self.stripes.of(made.caller.thread);
            record.sequence = own.tick(latest);
            own.made(made.caller);
            own.took(made.caller);
            let lacking = own.count(record);
            drop(own);
            self.counted(record, lacking);
            self.meters.took(record);
        });
        if let Some(old) = old {
            self.forget(&old);
            self.anomalies.push(Anomaly::Overwritten {
                record: old,
                by: Some(record),
            });
        }
        self.end_if_too_late(&record);
    }

    /// A pool knows its device; everything else lives on that of its context.
    fn resolve_place(&self, made: &Creation) -> Place {
        let pool = Key {
            space: Space::Handle(Kind::Pool),
            value: made.pool,
        };
        let pool = (made.pool != 0).then(|| self.table.get(&pool)).flatten();
        pool.map_or_else(
            || self.contexts.place_of(made.context),
            |pool| pool.made.place,
        )
    }

    /// Enters a new record into every figure but the table.
    fn count(&self, record: &Record) {
        self.stripes
            .of(record.made.caller.thread)
            .made(record.made.caller);
        self.count_again(record);
        self.meters.took(record);
    }

    fn count_again(&self, record: &Record) {
        let lacking = self.stripes.of(record.made.caller.thread).count(record);
        self.counted(record, lacking);
    }

    fn counted(&self, record: &Record, lacking: u64) {
        if lacking != 0 {
            self.peaks.cover(&self.stripes, record, lacking);
        }
    }

    fn forget(&self, record: &Record) {
        self.stripes.of(record.made.caller.thread).forget(record);
        self.meters.gave_back(record);
    }

    fn release_began(&self, key: Key, caller: Caller) -> Ticket {
        if key.space.is_shared() {
            return self.give_back_began(key, ALL, None, caller);
        }
        let ticket = self.table.leave(&key, |latest, record| {
            if let Some(record) = record {
                self.meters.gave_back(record);
            }
            let mut own = self.stripes.of(caller.thread);
            let moment = own.tick(latest);
            if let Some(record) = record {
                own.forget(record);
            }
            own.begin(
                moment,
                Flight {
                    key,
                    record: record.copied(),
                    caller,
                },
            )
        });
        if key.space.is_graph() {
            self.graph_end_began(ticket, key);
        }
        ticket
    }

    fn release_ended(&self, ticket: Ticket, error: CuResult, stack: StackId) {
        let Some(Flight {
            key,
            record,
            caller,
        }) = self.stripes.end_flight(ticket)
        else {
            return;
        };
        if key.space.is_graph() {
            self.graph_end_ended(ticket, caller, error);
        }
        match (error, record) {
            _ if key.space.is_shared() => {
                let caller = Caller { stack, ..caller };
                self.give_back_ended(ticket, key, caller, error);
            }
            (0 | DEINITIALIZED, Some(record)) => self.returned(&record, caller),
            (0 | DEINITIALIZED, None) => self.freed_unknown(ticket, key),
            (error, record) => {
                let record = record.and_then(|record| self.put_back(ticket, record));
                self.anomalies.push(Anomaly::FailedRelease {
                    key,
                    record,
                    caller: Caller { stack, ..caller },
                    error,
                });
            }
        }
    }

    fn release_captured(&self, ticket: Ticket) {
        let flight = self.stripes.end_flight(ticket);
        if let Some(record) = flight.and_then(|flight| flight.record) {
            self.put_back(ticket, record);
        }
    }

    fn returned(&self, record: &Record, caller: Caller) {
        self.awaited.returned(record, caller.stack);
        if caller.scope != ScopeId::NONE && caller.scope != record.made.caller.scope {
            let mut freed = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
            let freed = freed.get_mut(&caller.scope);
            // One scope's work may be another's inside it.
            if let Some(freed) = freed.filter(|freed| record.sequence < freed.since) {
                let returned = &mut freed.returned;
                returned.count += 1;
                returned.bytes = returned.bytes.saturating_add(record.made.bytes);
            }
        }
    }
}

impl Default for Ledger {
    fn default() -> Self {
        Self::new()
    }
}

mod contexts;
#[cfg(any(test, fuzzing))]
mod figures;
mod graphs;
mod handover;
mod put_back;
mod reading;
mod shared;

pub use handover::HandedOver;
use put_back::FreedUnknown;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
