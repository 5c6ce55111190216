//! Graph nodes that allocate or free memory.

#![expect(
    unsafe_code,
    reason = "reads the node parameters that the caller passes by pointer"
)]

use super::call::{AddedNode, key, named};
use super::foreign::{AllocationNode, Properties};
use super::listener::Listener;
use crate::capture::{caller, free_ended, freeing_caller};
use crate::ledger::event::{Creation, Event, Key, Space};
use crate::ledger::{Kind, Layer, Place};

/// `CU_GRAPH_NODE_TYPE_GRAPH`
const IS_GRAPH: u32 = 4;
/// `CU_GRAPH_NODE_TYPE_MEM_ALLOC`
const ALLOCATES: u32 = 10;
/// `CU_GRAPH_NODE_TYPE_MEM_FREE`
const FREES: u32 = 11;
/// `CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE`
const IS_MOVED: u32 = 1;

/// Reports how a node that was added to a graph will affect memory, if at all.
///
/// # Safety
///
/// The call that `node` describes has returned success.
pub(super) unsafe fn node_added(listener: &Listener<'_>, holder: u64, node: AddedNode) {
    let graph = named(Kind::GraphHandle, holder);
    let frees = |address| Some(Event::GraphFrees { graph, address });
    // SAFETY: the caller upholds the contract, and a node's type determines which parameters follow
    // it.
    let event = unsafe {
        match node {
            AddedNode::Frees(address) => frees(address),
            AddedNode::Allocates(at) => {
                at.read().and_then(|node| allocates(listener, graph, &node))
            }
            AddedNode::Any(at) => at.read().and_then(|node| match node.node_type {
                ALLOCATES => allocates(listener, graph, &node.parameters.allocation),
                FREES => frees(node.parameters.freed),
                IS_GRAPH if node.parameters.child.ownership == IS_MOVED => {
                    child_moved(listener, graph, node.parameters.child.graph);
                    None
                }
                _ => None,
            }),
        }
    };
    if let Some(event) = event {
        listener.report(event);
    }
}

/// Reports that `child` was moved into its parent. It is now destroyed with its parent, and the
/// program can no longer destroy it, so it counts as freed.
fn child_moved(listener: &Listener<'_>, parent: Key, child: u64) {
    let key = named(Kind::GraphHandle, child);
    listener.nodes_moved(key, Some(parent));
    let caller = freeing_caller();
    if let Some(ticket) = listener.report(Event::FreeBegan { key, caller }) {
        listener.report(free_ended(ticket, 0));
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

/// Returns the place of memory, given its `CUmemLocation`.
pub(super) fn location(properties: Properties) -> Place {
    let device = properties.location_id;
    match properties.location_type {
        // CU_MEM_LOCATION_TYPE_DEVICE
        1 => Place::cuda(device as usize),
        // …_HOST, …_HOST_NUMA, …_HOST_NUMA_CURRENT
        2..=4 => Place::HOST,
        // …_DEVICE_LOCALITY_DOMAIN: the first byte is the device's ordinal.
        6 => Place::cuda(usize::from(device.to_ne_bytes()[0])),
        _ => Place::UNKNOWN,
    }
}
