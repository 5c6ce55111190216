//! Graphs: nodes that have to do with memory, captures that end, and launches.

#![expect(
    unsafe_code,
    reason = "the parameters of nodes are read where the caller has written them"
)]

use super::call::{AddedNode, Creates, GraphFlags, exec, graph, key};
use super::foreign::{AllocationNode, Properties};
use super::heard::Listener;
use crate::capture::{caller, caller_without_stack};
use crate::device::captures;
use crate::ledger::event::{Creation, Event, Key, Space, Ticket};
use crate::ledger::{Kind, Layer, Ledger, Place};

/// `CU_GRAPH_NODE_TYPE_MEM_ALLOC`
const ALLOCATES: u32 = 10;
/// `CU_GRAPH_NODE_TYPE_MEM_FREE`
const FREES: u32 = 11;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`
const AUTO_FREE: u64 = 1;

/// The graph without a name that a stream is captured into.
pub(super) fn captured_stream(value: u64) -> Key {
    let space = Space::Handle(Kind::Stream);
    Key { space, value }
}

/// Whether a launch frees the memory that the launch before it left.
///
/// # Safety
///
/// The call that has these flags has returned success.
pub(super) unsafe fn frees_at_launch(flags: GraphFlags) -> bool {
    let flags = match flags {
        GraphFlags::Given(flags) => Some(flags),
        // SAFETY: the caller's promise.
        GraphFlags::Parameters(parameters) => unsafe { parameters.read() },
    };
    flags.is_some_and(|flags| flags & AUTO_FREE != 0)
}

/// If `create` is a call that ends a capture, that capture has ended, with this graph. Answers with the
/// graph that it added to, 0 for one of its own.
pub(super) fn capture_ended(listener: &Listener<'_>, create: &Creates, graph: Option<Key>) -> u64 {
    let Some(stream) = create.ends_capture else {
        return 0;
    };
    let into = captures::ended(stream);
    listener.tell(Event::CaptureEnded {
        stream: captured_stream(stream),
        graph,
        is_last: !captures::active(),
    });
    into
}

/// A launch of `exec` is about to be made. Most have nothing to do with memory, and cost one load.
pub(super) fn launch_began(ledger: &Ledger, launched: u64) -> Option<Ticket> {
    if !ledger.knows_graph_memory() {
        return None;
    }
    ledger.apply(&Event::LaunchBegan {
        exec: exec(launched),
        caller: caller_without_stack(),
    })
}

/// A node was added to a graph: tells what it does to memory, if anything.
///
/// # Safety
///
/// The call that `node` is made of has returned success.
pub(super) unsafe fn node_added(listener: &Listener<'_>, holder: u64, node: AddedNode) {
    let graph = graph(holder);
    let frees = |address| Some(Event::GraphFrees { graph, address });
    // SAFETY: the caller's promise. The type of a node says which parameters stand behind it.
    let event = unsafe {
        match node {
            AddedNode::Frees(address) => frees(address),
            AddedNode::Allocates(at) => {
                at.read().and_then(|node| allocates(listener, graph, &node))
            }
            AddedNode::Any(at) => at.read().and_then(|node| match node.node_type {
                ALLOCATES => allocates(listener, graph, &node.parameters.allocation),
                FREES => frees(node.parameters.freed),
                _ => None,
            }),
        }
    };
    if let Some(event) = event {
        listener.tell(event);
    }
}

fn allocates(listener: &Listener<'_>, graph: Key, node: &AllocationNode) -> Option<Event> {
    let key = key(Space::DevicePointer, node.pointer)?;
    let current = listener.current();
    let place = match location(node.properties) {
        Place::UNKNOWN => current.place,
        place => place,
    };
    let made = Creation {
        key,
        kind: Kind::Graph,
        layer: Layer::DRIVER,
        place,
        bytes: node.bytes,
        context: current.owner,
        stream: 0,
        pool: 0,
        caller: caller(),
    };
    Some(Event::GraphAllocates { graph, made })
}

/// Where memory is, by its `CUmemLocation`.
pub(super) fn location(properties: Properties) -> Place {
    let device = properties.location_id;
    match properties.location_type {
        // CU_MEM_LOCATION_TYPE_DEVICE
        1 => Place::cuda(device as usize),
        // …_HOST, …_HOST_NUMA, …_HOST_NUMA_CURRENT
        2..=4 => Place::HOST,
        // …_DEVICE_LOCALITY_DOMAIN: the device's number is the first byte.
        6 => Place::cuda(usize::from(device.to_ne_bytes()[0])),
        _ => Place::UNKNOWN,
    }
}
