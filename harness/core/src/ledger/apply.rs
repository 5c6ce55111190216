//! Applies events to the ledger. All events enter the ledger here.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::anomaly::{Anomalies, Anomaly, FailedCall};
use super::contexts::{ContextEntry, ContextTable};
use super::event::{
    Caller, Creation, CuResult, Event, Key, Record, ScopeId, Space, StackId, Ticket,
};
use super::free_log::{FreeLog, UnknownFree};
use super::kind::Kind;
use super::name::Place;
use super::scopes::OpenScopes;
use super::shard::{EndedFree, FreeEnd, began};
use super::shared::Shared;
use super::stack::Stacks;
use super::table::Table;
use super::tap::{Listener, Tap};
use crate::recursion_guard::quiet;

/// `CUDA_ERROR_DEINITIALIZED`: the driver is shutting down and frees everything itself.
const DEINITIALIZED: CuResult = 4;

/// More references than any object can have.
const ALL: u64 = u64::MAX;

/// Whether a freeing call succeeded.
const fn succeeded(error: CuResult) -> bool {
    matches!(error, 0 | DEINITIALIZED)
}

/// The table of live resources and the associated bookkeeping.
#[derive(Debug, Default)]
pub struct Ledger {
    table: Table,
    shared: Mutex<Shared>,
    /// Whether any graph allocates or frees memory. Launches are frequent, but few graphs do so.
    knows_graph_memory: AtomicBool,
    unknown_frees: AtomicU64,
    /// The open scopes.
    pub scopes: OpenScopes,
    stacks: Stacks,
    /// The contexts.
    pub contexts: ContextTable,
    /// The anomalies so far.
    pub anomalies: Anomalies,
    /// The recorded frees of resources that the logged scopes created.
    pub free_log: FreeLog,
    /// Whether resources made outside any scope belong to the watched program.
    all_its_own: AtomicBool,
    pub(super) tap: Tap<Self>,
}

/// Receives an event after the ledger has applied it, with the ticket that the ledger returned. A
/// listener must neither report to the ledger nor wait for a thread that does.
pub type EventListener = Listener<Ledger>;

impl Ledger {
    /// Creates an empty ledger. The ledger of the process is the harness's `ledger::live()`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies one event. For the beginning of a free, returns a ticket that the end of the free
    /// must contain.
    #[inline]
    pub fn apply(&self, event: &Event) -> Option<Ticket> {
        if self.tap.is_on() {
            return self.apply_and_notify(event);
        }
        self.update(event)
    }

    #[cold]
    fn apply_and_notify(&self, event: &Event) -> Option<Ticket> {
        self.tap.notify(self, event, || self.update(event))
    }

    /// Calls `listener` for every event from now on. Only the first call takes effect.
    pub fn listen(&self, listener: EventListener) {
        let _quiet = quiet();
        self.tap.listen(listener);
    }

    /// Whether there is a listener.
    pub fn has_listener(&self) -> bool {
        self.tap.is_on()
    }

    /// Runs `step` between two events, if there is a listener.
    ///
    /// Like a listener, `step` must neither report to the ledger nor wait for a thread that does.
    pub fn between_events<T>(&self, step: impl FnOnce() -> T) -> T {
        let _quiet = quiet();
        let _order = self.has_listener().then(|| self.tap.order());
        step()
    }

    #[inline]
    pub(super) fn update(&self, event: &Event) -> Option<Ticket> {
        match event {
            Event::Created(made) => self.created(made),
            Event::FreeBegan { key, caller } => return Some(self.free_began(key, caller)),
            Event::FreeEnded {
                ticket,
                error,
                stack,
            } => self.free_ended(*ticket, *error, *stack),
            other => return self.update_other(other),
        }
        None
    }

    /// Applies the events that [`Self::update`] does not apply itself. A single function for all
    /// events would need a large stack frame.
    #[inline(never)]
    fn update_other(&self, event: &Event) -> Option<Ticket> {
        match *event {
            Event::Created(_) | Event::FreeBegan { .. } | Event::FreeEnded { .. } => {
                return self.update(event);
            }
            Event::CreationFailed {
                kind,
                bytes,
                error,
                caller,
            } => self.anomalies.push(Anomaly::FailedCreation {
                kind,
                bytes,
                caller,
                error,
            }),
            Event::FreeCaptured { ticket } => self.free_captured(ticket),
            Event::Retained { key, count } => self.shared().physical.holds.add(&key, count),
            Event::ReleaseBegan {
                key,
                count,
                graph,
                caller,
            } => return Some(self.release_began(key, count, graph, caller)),
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
            Event::NodesMoved { from, to } => self.nodes_moved(from, to),
            Event::LaunchBegan { exec, caller } => return self.launch_began(exec, caller),
            Event::LaunchEnded { ticket, error } => self.launch_ended(ticket, error),
            Event::GraphUpdated { exec, graph } => {
                self.change(|shared| shared.graph_updated(exec, &graph));
            }
            Event::HandleRetained { handle, address } => self.change(|shared| {
                let now = self.table.figures.number();
                shared.physical.retained(handle, address, now);
            }),
            Event::Mapped {
                address,
                bytes,
                handle,
            } => self.change(|shared| {
                let now = self.table.figures.number();
                shared.physical.mapped(address, bytes, handle, now);
            }),
            Event::UnmapBegan {
                address,
                bytes,
                caller,
            } => {
                let key = Key::new(Space::Mapping, address);
                let unmap = |shared: &mut Shared, free: &mut _| shared.unmap(free, bytes);
                return Some(self.shared_free_began(key, caller, unmap));
            }
            Event::HandedOver { address } => self.hand_over(address),
            Event::PrimaryRetained { place, caller } => {
                self.scopes.primary_changed(caller.scope, place, 1);
            }
            Event::PrimaryReleased { place, caller } => {
                self.scopes.primary_changed(caller.scope, place, -1);
            }
            Event::Bound { key, memory, bytes } => self.table.bind(&key, memory, bytes),
            Event::ContextCreated {
                context,
                handle,
                place,
            } => self.contexts.created(ContextEntry {
                uid: context,
                handle,
                place,
            }),
            Event::ContextDestroyed {
                context,
                cause,
                caller,
            } => self.context_destroyed(context, cause, caller),
        }
        None
    }

    fn created(&self, made: &Creation) {
        if made.place == Place::UNKNOWN {
            return self.created_somewhere(made);
        }
        self.created_at(made);
    }

    #[inline(never)]
    fn created_somewhere(&self, made: &Creation) {
        let place = self.resolve_place(made);
        self.created_at(&Creation { place, ..*made });
    }

    #[inline]
    fn created_at(&self, made: &Creation) {
        if made.key.space.is_shared() {
            return self.shared_created(*made);
        }
        let may_be_late = || self.contexts.may_have_ended(made.context);
        if let Some((record, old)) = self.table.create(made, may_be_late) {
            self.created_late(record, old);
        }
    }

    /// Handles a creation under the key of something live, or in a context that may have ended.
    #[cold]
    fn created_late(&self, record: Record, old: Option<Box<Record>>) {
        if let Some(old) = old {
            self.anomalies.push(Anomaly::Overwritten {
                record: *old,
                by: Some(record),
            });
        }
        self.end_if_too_late(&record);
    }

    /// Returns the place of a creation. An allocation from a known pool is located where the pool
    /// is, and everything else on the device of its context.
    fn resolve_place(&self, made: &Creation) -> Place {
        let pool = Key::new(Space::Handle(Kind::Pool), made.pool);
        let pool = (made.pool != 0).then(|| self.table.get(&pool)).flatten();
        pool.map_or_else(
            || self.contexts.place_of(made.context),
            |pool| pool.made.place,
        )
    }

    fn free_began(&self, key: &Key, caller: &Caller) -> Ticket {
        if key.space.is_shared() {
            return self.release_began(*key, ALL, None, *caller);
        }
        let ticket = self.table.begin_free(key, caller);
        if key.space.is_graph() {
            self.graph_end_began(ticket, *key, *caller);
        }
        ticket
    }

    fn free_ended(&self, ticket: Ticket, error: CuResult, stack: StackId) {
        let is_done = |record: &Record, caller| self.needs_no_end(record, caller);
        match self.table.end_free(ticket, succeeded(error), is_done) {
            FreeEnd::Done => {}
            FreeEnd::Elsewhere => self.shared_free_ended(ticket, error, stack),
            FreeEnd::Pending(ended) => self.finish_free(&ended, ticket, error, stack),
        }
    }

    #[inline(never)]
    fn finish_free(&self, ended: &EndedFree, ticket: Ticket, error: CuResult, stack: StackId) {
        if ended.key.space.is_graph() {
            self.graph_end_ended(ticket, error);
        }
        let caller = ended.caller;
        match &ended.record {
            Some(record) if succeeded(error) => self.freed(record, caller),
            None if succeeded(error) => {
                self.count_unknown_free();
                self.free_log.freed_unknown(UnknownFree {
                    key: ended.key,
                    by: caller,
                    began: began(ticket),
                });
            }
            record => self.anomalies.push(Anomaly::FailedFree(FailedCall {
                key: ended.key,
                record: record.filter(|record| !self.end_if_too_late(record)),
                caller: Caller { stack, ..caller },
                error,
            })),
        }
    }

    fn free_captured(&self, ticket: Ticket) {
        if let FreeEnd::Pending(ended) = self.table.end_free(ticket, false, |_, _| false) {
            ended.record.map(|record| self.end_if_too_late(&record));
        }
        self.put_back_shared(ticket);
    }

    fn count_unknown_free(&self) {
        self.unknown_frees.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether nothing remains to be done when a free of this record succeeds.
    fn needs_no_end(&self, record: &Record, caller: Caller) -> bool {
        !frees_for_another(record, caller)
            && !self.free_log.is_on()
            && !record.key().space.is_graph()
    }

    /// Handles the free of a known record.
    fn freed(&self, record: &Record, caller: Caller) {
        self.free_log.freed(record, caller.stack, || self.now());
        if frees_for_another(record, caller) {
            self.scopes
                .freed(caller.scope, record.sequence, &record.made);
        }
    }
}

/// Whether a scope frees a resource that it did not create.
fn frees_for_another(record: &Record, caller: Caller) -> bool {
    caller.scope != ScopeId::NONE && caller.scope != record.made.caller.scope
}

mod contexts;
mod graphs;
mod handover;
mod reading;

pub use reading::Snapshot;
mod shared;

#[cfg(test)]
mod tests;
