//! Calls that a capture turns into nodes, captures that end, and launches.

use std::cell::Cell;

use super::super::ffi::GraphData;
use super::super::field::Value;
use super::{
    Block, Creates, CuResult, Event, Key, Kind, Ledger, ResourceData, Space, Ticket,
    caller_without_stack, captures, decode, handle,
};

thread_local! {
    /// The graph in which a node was created during the call in progress, which is being captured
    /// then; 0 for one without a name.
    static NODE_CREATED_IN: Cell<Option<u64>> = const { Cell::new(None) };
}

/// A call begins on this thread.
pub(super) fn call_began() {
    NODE_CREATED_IN.set(None);
}

/// Whether the call in progress is being captured.
pub(super) fn is_captured() -> bool {
    NODE_CREATED_IN.get().is_some()
}

/// A node was created during the call in progress.
///
/// # Safety
///
/// `data` is that of a callback about a node.
pub(super) unsafe fn node_created(data: &ResourceData) {
    let graph = data.resource_descriptor.cast::<GraphData>();
    // SAFETY: CUPTI describes the graph and its node there.
    let graph = unsafe { graph.as_ref() };
    NODE_CREATED_IN.set(Some(graph.map_or(0, |data| handle(data.graph))));
}

/// The graph that the call in progress was captured into; the stream, of a graph without a name.
///
/// # Safety
///
/// `block` belongs to a call that `stream` is a field of.
pub(super) unsafe fn captured_into(stream: Option<Value>, block: Block) -> Key {
    match NODE_CREATED_IN.get() {
        Some(graph) if graph != 0 => decode::graph(graph),
        // SAFETY: the caller's promise.
        _ => captured_stream(stream.map_or(0, |stream| unsafe { block.value(stream) })),
    }
}

fn captured_stream(value: u64) -> Key {
    let space = Space::Handle(Kind::Stream);
    Key { space, value }
}

/// A capture ended. Answers with the graph that it added to, 0 for one of its own.
///
/// # Safety
///
/// `block` is that of the call that `create` describes, and `stream` a field of it; the call has
/// returned `error`.
pub(super) unsafe fn capture_ended(
    ledger: &Ledger,
    create: &Creates,
    stream: Value,
    block: Block,
    error: CuResult,
) -> u64 {
    // SAFETY: the caller's promise.
    let stream = unsafe { block.value(stream) };
    let into = captures::ended(stream);
    let graph = if error == 0 {
        // SAFETY: the caller's promise, and the call has returned success.
        unsafe { decode::created_key(create, block) }
    } else {
        None
    };
    ledger.apply(&Event::CaptureEnded {
        stream: captured_stream(stream),
        graph,
        is_last: !captures::active(),
    });
    into
}

/// A launch of `exec` began. Most have nothing to do with memory, and cost one load.
pub(super) fn launch_began(ledger: &Ledger, exec: u64) -> Option<Ticket> {
    if !ledger.knows_graph_memory() {
        return None;
    }
    let exec = Key {
        space: Space::Handle(Kind::ExecGraph),
        value: exec,
    };
    let caller = caller_without_stack();
    ledger.apply(&Event::LaunchBegan { exec, caller })
}
