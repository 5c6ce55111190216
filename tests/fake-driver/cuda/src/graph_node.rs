//! The calls that add one node to a graph. Kernels do nothing, so their parameters are not read.

use crate::dispatch::{In, Out, api};
use crate::error::Error;
use crate::graph::{Node, add_allocation, add_child, add_free, add_node};
use crate::handle::Handle;
use crate::host_call::HostCall;
use crate::pool::located;
use crate::state::driver;

/// `CUDA_MEM_ALLOC_NODE_PARAMS`: 120 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationParams {
    allocation_type: u32,
    handle_types: u32,
    location_type: u32,
    location_id: i32,
    rest_of_pool: [u64; 9],
    access: u64,
    accesses: usize,
    size: usize,
    address: u64,
}

/// `CUDA_CHILD_GRAPH_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct ChildParams {
    graph: Handle,
    ownership: u32,
}

/// `CUgraphNodeParams`: 256 bytes. Its middle part depends on the kind of node.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeParams {
    kind: u32,
    reserved: [u32; 3],
    of_kind: [u64; 29],
    reserved_too: u64,
}

/// The offset in `NodeParams` at which the parameters of a kind begin.
const OF_KIND: usize = 16;

fn add_allocation_of(graph: Handle, params: Out<AllocationParams>) -> Result<Handle, Error> {
    let mut asked = params.value()?;
    let device = {
        let driver = driver()?;
        located(&driver, asked.location_type, asked.location_id)?.ok_or(Error::INVALID_VALUE)?
    };
    let (added, address) = add_allocation(graph, device, asked.size as u64)?;
    asked.address = address;
    params.put(asked)?;
    Ok(added)
}

fn add_host(graph: Handle, call: HostCall) -> Result<Handle, Error> {
    if !call.is_there() {
        return Err(Error::INVALID_VALUE);
    }
    add_node(graph, |_| Ok(Node::Host(call)))
}

/// Adds a node of any kind, by its number in `CUgraphNodeType`.
fn add(node: Out<Handle>, graph: Handle, params: Out<NodeParams>) -> Result<(), Error> {
    if node.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let kind = params.value()?.kind;
    let of_kind = params.cast::<u8>().at(OF_KIND);
    node.put(match kind {
        0 => add_node(graph, |_| Ok(Node::Kernel))?,
        3 => add_host(graph, of_kind.cast::<HostCall>().value()?)?,
        4 => {
            let ChildParams {
                graph: child,
                ownership,
            } = of_kind.cast::<ChildParams>().value()?;
            add_child(graph, child, ownership == 1)?
        }
        5..=7 => add_node(graph, |_| Ok(Node::Empty))?,
        10 => add_allocation_of(graph, of_kind.cast())?,
        11 => add_free(graph, of_kind.cast::<u64>().value()?)?,
        _ => return Err(Error::NOT_SUPPORTED),
    })
}

api! {
    cuGraphAddNode fn(
        node: Out<Handle>, graph: Handle, _dependencies: In<Handle>, _count: usize, params: Out<NodeParams>,
    ) {
        add(node, graph, params)
    }

    cuGraphAddNode_v2, cuGraphAddNode_v3 fn(
        node: Out<Handle>, graph: Handle, _dependencies: In<Handle>, _edges: In<u64>, _count: usize,
        params: Out<NodeParams>,
    ) {
        add(node, graph, params)
    }

    cuGraphAddMemAllocNode fn(
        node: Out<Handle>, graph: Handle, _dependencies: In<Handle>, _count: usize, params: Out<AllocationParams>,
    ) {
        node.put(add_allocation_of(graph, params)?)
    }

    cuGraphAddMemFreeNode fn(
        node: Out<Handle>, graph: Handle, _dependencies: In<Handle>, _count: usize, address: u64,
    ) {
        node.put(add_free(graph, address)?)
    }

    cuGraphAddChildGraphNode fn(
        node: Out<Handle>, graph: Handle, _dependencies: In<Handle>, _count: usize, child: Handle,
    ) {
        node.put(add_child(graph, child, false)?)
    }

    cuGraphAddEmptyNode fn(node: Out<Handle>, graph: Handle, _dependencies: In<Handle>, _count: usize) {
        node.put(add_node(graph, |_| Ok(Node::Empty))?)
    }

    cuGraphAddHostNode fn(
        node: Out<Handle>, graph: Handle, _dependencies: In<Handle>, _count: usize, params: In<HostCall>,
    ) {
        node.put(add_host(graph, params.get()?)?)
    }

    cuGraphAddKernelNode, cuGraphAddKernelNode_v2 fn(
        node: Out<Handle>, graph: Handle, _dependencies: In<Handle>, _count: usize, _params: In<u64>,
    ) {
        node.put(add_node(graph, |_| Ok(Node::Kernel))?)
    }
}
