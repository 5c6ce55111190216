//! Reports calls to the ledger, together with what is known about the process's contexts.

#![expect(
    unsafe_code,
    reason = "passes the program's handles to the driver's C functions"
)]

use super::call::{named, place_of};
use super::contexts::{Context, Contexts};
use crate::capture::{caller, caller_without_stack};
use crate::device::captures;
use crate::device::driver::Driver;
use crate::ledger::event::{ContextEnd, ContextUid, Event, Key, Ticket};
use crate::ledger::{Kind, Ledger, Place};

/// `CU_STREAM_PER_THREAD`. Streams with greater handles belong to the context in which they were
/// created; all others belong to the current one.
pub(super) const PER_THREAD: u64 = 2;

/// Reports calls to a ledger, and answers questions about the call. Outside a capture, a call that
/// allocates or frees memory causes at most one query to the driver, unless the current context
/// does not show where the memory is. No call waits for a device.
pub(super) struct Listener<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) contexts: &'a Contexts,
    pub(super) driver: Option<&'a Driver>,
    pub(super) per_thread: bool,
}

impl Listener<'_> {
    #[inline]
    pub(super) fn report(&self, event: Event) -> Option<Ticket> {
        self.ledger.apply(&event)
    }

    /// Returns the context current to this thread, and reports it if it is new.
    pub(super) fn current(&self) -> Context {
        let handle = self.driver.and_then(|driver| driver.current_context().ok());
        let handle = handle.unwrap_or(0);
        let place = || {
            let device = self.driver.and_then(|driver| driver.current_device().ok());
            device.map_or(Place::UNKNOWN, place_of)
        };
        let (context, created) = self.contexts.seen(handle, place);
        if let Some(created) = created {
            self.report(created);
        }
        context
    }

    /// Reports the end of a green context and of the context to which it was converted. Also
    /// reports the end of its device's primary context, if nothing else held that context.
    pub(super) fn green_ended(&self, green: u64) {
        // The captures on its streams end. These streams belong to no context, so the driver is
        // asked which of them are still being captured.
        for stream in captures::streams_of(ContextUid::default()) {
            // SAFETY: the capture that the program has begun keeps the stream live.
            let is_capturing = self
                .driver
                .map(|it| unsafe { it.stream_is_capturing(stream) });
            if is_capturing.is_some_and(|it| it.is_err()) {
                self.capture_ended(stream, None);
            }
        }
        if let Some(green) = self.contexts.end(|it| it.green == green) {
            self.context_ended(Some(green), ContextEnd::Destroyed);
            self.primary_ended(green.place, ContextEnd::Destroyed);
        }
    }

    /// Reports that a primary context was released or reset. A reset does not change how often the
    /// context is retained.
    pub(super) fn primary_released(&self, device: i32, cause: ContextEnd) {
        let (place, caller) = (place_of(device), caller_without_stack());
        self.primary_ended(place, cause);
        if cause != ContextEnd::Reset {
            self.report(Event::PrimaryReleased { place, caller });
        }
    }

    /// Reports the end of a place's primary context, if it has ended.
    pub(super) fn primary_ended(&self, place: Place, cause: ContextEnd) {
        let is_active = || self.driver?.primary_is_active(place.cuda_ordinal()?).ok();
        // A reset ends the context, no matter who holds it.
        if cause == ContextEnd::Reset || is_active() == Some(false) {
            while let Some(ended) = self.contexts.end_primary(place) {
                self.context_ended(Some(ended), cause);
            }
        }
    }

    /// Reports the end of a context.
    pub(super) fn context_ended(&self, context: Option<Context>, cause: ContextEnd) {
        if let Some(Context { uid: context, .. }) = context {
            self.report(Event::ContextDestroyed {
                context,
                cause,
                caller: caller(),
            });
            for stream in captures::ended_with(context) {
                self.nodes_moved(named(Kind::Stream, stream), None);
            }
        }
    }

    /// Returns `CU_STREAM_PER_THREAD` if `stream` is 0 and means that stream in this call;
    /// otherwise `stream`.
    fn stream(&self, stream: u64) -> u64 {
        match stream {
            0 if self.per_thread => PER_THREAD,
            stream => stream,
        }
    }

    /// Records that a capture began. It adds nodes to the graph `into` or, if that is 0, to a new
    /// graph.
    pub(super) fn capture_began(&self, stream: u64, into: u64) {
        let key = self.stream(stream);
        let record = self.ledger.get(&named(Kind::Stream, key));
        let context = record.map_or_else(|| self.current().owner, |it| it.made.context);
        captures::began(key, into, context);
        // SAFETY: the capture that the program has begun keeps the stream live.
        let graph = unsafe { self.captured(Some(stream)) };
        // An earlier graph with this handle may have been abandoned in the middle of its capture,
        // and its nodes are still known.
        if let Some(graph) = graph.filter(|graph| self.ledger.get(graph).is_none()) {
            self.nodes_moved(graph, None);
        }
    }

    /// Records that the capture on this stream ended with the graph `graph` or with none. Returns
    /// the existing graph to which the capture added nodes, or 0.
    pub(super) fn capture_ended(&self, stream: u64, graph: Option<Key>) -> u64 {
        let stream = self.stream(stream);
        let into = captures::ended(stream);
        if into.is_some() || graph.is_some() {
            self.nodes_moved(named(Kind::Stream, stream), graph);
        }
        into.unwrap_or(0)
    }

    /// Reports that the nodes that were added under `from` belong to `to` or, if it is `None`, are
    /// gone.
    pub(super) fn nodes_moved(&self, from: Key, to: Option<Key>) {
        self.report(Event::NodesMoved { from, to });
    }

    /// Returns the graph into which a call on `stream` is captured, or the stream if the graph has
    /// no handle yet.
    ///
    /// # Safety
    ///
    /// The stream is a parameter of a call that is about to be made.
    pub(super) unsafe fn captured(&self, stream: Option<u64>) -> Option<Key> {
        let stream = stream.filter(|_| captures::active())?;
        // SAFETY: as the caller promises, the stream is valid for the program's own call.
        let into = unsafe { self.driver?.captured_into(stream, self.per_thread) };
        into.ok()?.map(|graph| match graph {
            0 => named(Kind::Stream, self.stream(stream)),
            _ => named(Kind::GraphHandle, graph),
        })
    }
}
