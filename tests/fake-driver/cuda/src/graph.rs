//! Graphs and executable graphs.

use crate::copy::Transfer;
use crate::dispatch::{self, In, Out, api, resource};
use crate::error::Error;
use crate::handle::Handle;
use crate::memory::{Allocation, Kind};
use crate::state::{Driver, driver};

/// One operation of a graph.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node {
    Empty,
    Kernel,
    Host,
    Transfer(Transfer),
    Allocate(u64),
    Free(u64),
}

/// A graph: its nodes in the order they were added.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: Vec<Handle>,
}

/// An instantiated graph.
#[derive(Debug)]
pub(crate) struct Exec {
    nodes: Vec<Node>,
    device: usize,
    auto_free: bool,
}

impl Driver {
    /// Destroys a graph: its nodes go, and the addresses that nothing else holds.
    pub(crate) fn destroy_graph(&mut self, graph: Handle) -> Result<(), Error> {
        let graph = self.graphs.remove(graph).ok_or(Error::INVALID_VALUE)?;
        for node in graph.nodes {
            if let Some(Node::Allocate(address)) = self.nodes.remove(node) {
                for device in &mut self.devices {
                    device.graph.drop_graph(address);
                }
            }
        }
        Ok(())
    }

    fn is_graph_memory(&self, address: u64) -> bool {
        self.devices
            .iter()
            .any(|device| device.graph.contains(address))
    }

    fn instantiate(&mut self, graph: Handle, flags: u64) -> Result<Handle, Error> {
        let device = self.current()?.device;
        let graph = self.graphs.get(graph).ok_or(Error::INVALID_VALUE)?;
        let nodes: Vec<Node> = graph
            .nodes
            .iter()
            .filter_map(|&node| self.nodes.get(node).copied())
            .collect();
        let memory = &mut self.devices[device].graph;
        let addresses: Vec<u64> = nodes
            .iter()
            .filter_map(|node| {
                if let Node::Allocate(address) = node {
                    Some(*address)
                } else {
                    None
                }
            })
            .collect();
        // A graph with memory nodes is instantiated once at a time.
        if addresses
            .iter()
            .any(|&address| !memory.is_free_to_instantiate(address))
        {
            return Err(Error::NOT_SUPPORTED);
        }
        for address in addresses {
            memory.hold(address);
        }
        Ok(self.execs.insert(Exec {
            nodes,
            device,
            auto_free: flags & 1 != 0,
        }))
    }

    fn launch(&mut self, exec: Handle) -> Result<(), Error> {
        let exec = self.execs.get(exec).ok_or(Error::INVALID_VALUE)?;
        let (nodes, device, auto_free) = (exec.nodes.clone(), exec.device, exec.auto_free);
        for node in &nodes {
            if let Node::Allocate(address) = node
                && self.memory.contains_key(address)
            {
                if !auto_free {
                    return Err(Error::INVALID_VALUE);
                }
                self.release(*address, true);
            }
        }
        for node in nodes {
            match node {
                Node::Allocate(address) => {
                    let size = self.devices[device].graph.make_live(address);
                    let allocation = Allocation {
                        kind: Kind::Graph,
                        size,
                        device,
                        context: 0,
                        owner: 0,
                        flags: 0,
                    };
                    self.record(address, allocation);
                }
                Node::Free(address) => self.release(address, true),
                Node::Transfer(transfer) => self.run(transfer)?,
                Node::Empty | Node::Kernel | Node::Host => {}
            }
        }
        Ok(())
    }
}

/// `CUpti_GraphData`.
#[repr(C)]
struct GraphData {
    graph: Handle,
    original_graph: Handle,
    node: Handle,
    original_node: Handle,
    /// Read 0 on an H200 at the moment the node is made, whatever the node.
    node_type: u32,
    dependency: Handle,
    exec: Handle,
}

/// Adds a node and tells the tracer, between the ENTER and the EXIT of the call that adds it.
pub(crate) fn add_node(
    graph: Handle,
    make: impl FnOnce(&mut Driver) -> Result<Node, Error>,
) -> Result<Handle, Error> {
    let context = {
        let driver = driver()?;
        driver.graphs.get(graph).ok_or(Error::INVALID_VALUE)?;
        driver.current_handle().unwrap_or(0)
    };
    let tell = |cbid, node| {
        let data = GraphData {
            graph,
            original_graph: 0,
            node,
            original_node: 0,
            node_type: 0,
            dependency: 0,
            exec: 0,
        };
        dispatch::tell_resource(cbid, context, 0, (&raw const data).cast());
    };
    tell(resource::GRAPHNODE_CREATE_STARTING, 0);
    let node = {
        let mut driver = driver()?;
        let made = make(&mut driver)?;
        let node = driver.nodes.insert(made);
        driver
            .graphs
            .get_mut(graph)
            .ok_or(Error::INVALID_VALUE)?
            .nodes
            .push(node);
        node
    };
    tell(resource::GRAPHNODE_CREATED, node);
    Ok(node)
}

/// Adds an allocation node; its address is fixed now, memory comes with a launch.
pub(crate) fn add_allocation(
    graph: Handle,
    device: usize,
    size: u64,
) -> Result<(Handle, u64), Error> {
    if size == 0 {
        return Err(Error::INVALID_VALUE);
    }
    let mut address = 0;
    let node = add_node(graph, |driver| {
        driver.admit(device, size, size)?;
        let reserved = driver.devices[device].graph.reserve(size);
        address = reserved.ok_or(Error::OUT_OF_MEMORY)?;
        Ok(Node::Allocate(address))
    })?;
    Ok((node, address))
}

/// Adds a free node; only graph memory can be freed by one.
pub(crate) fn add_free(graph: Handle, address: u64) -> Result<Handle, Error> {
    add_node(graph, |driver| {
        if driver.is_graph_memory(address) {
            Ok(Node::Free(address))
        } else {
            Err(Error::INVALID_VALUE)
        }
    })
}

fn instantiate(exec: Out<Handle>, graph: Handle, flags: u64) -> Result<(), Error> {
    exec.put(driver()?.instantiate(graph, flags)?)
}

fn launch(exec: Handle, stream: Handle) -> Result<(), Error> {
    let mut driver = driver()?;
    driver.context_of_stream(stream)?;
    driver.launch(exec)
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`: 120 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationNodeParams {
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

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct InstantiateParams {
    flags: u64,
    upload_stream: Handle,
    error_node: Handle,
    result: u32,
}

api! {
    cuGraphCreate = 501 fn(graph: Out<Handle>, flags: u32) {
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        graph.put(driver()?.graphs.insert(Graph::default()))
    }

    cuGraphClone = 523 fn(clone: Out<Handle>, original: Handle) {
        let mut driver = driver()?;
        let graph = driver.graphs.get(original).ok_or(Error::INVALID_VALUE)?;
        let nodes: Vec<Node> = graph.nodes.iter().filter_map(|&node| driver.nodes.get(node).copied()).collect();
        if nodes.iter().any(|node| matches!(node, Node::Allocate(_) | Node::Free(_))) {
            return Err(Error::NOT_SUPPORTED);
        }
        let nodes = nodes.into_iter().map(|node| driver.nodes.insert(node)).collect();
        clone.put(driver.graphs.insert(Graph { nodes }))
    }

    cuGraphDestroy = 517 fn(graph: Handle) {
        driver()?.destroy_graph(graph)
    }

    cuGraphInstantiate = 513, cuGraphInstantiate_v2 = 578 fn(
        exec: Out<Handle>, graph: Handle, _error_node: Out<Handle>, _log: Out<u8>, _capacity: usize,
    ) {
        instantiate(exec, graph, 0)
    }

    cuGraphInstantiateWithFlags = 643 fn(exec: Out<Handle>, graph: Handle, flags: u64) {
        instantiate(exec, graph, flags)
    }

    cuGraphInstantiateWithParams = 656, cuGraphInstantiateWithParams_ptsz = 657 fn(
        exec: Out<Handle>, graph: Handle, params: Out<InstantiateParams>,
    ) {
        let mut answered = params.value()?;
        instantiate(exec, graph, answered.flags)?;
        answered.result = 0;
        params.put(answered)
    }

    cuGraphExecDestroy = 516 fn(exec: Handle) {
        let mut driver = driver()?;
        let exec = driver.execs.remove(exec).ok_or(Error::INVALID_VALUE)?;
        for node in exec.nodes {
            if let Node::Allocate(address) = node {
                driver.devices[exec.device].graph.drop_exec(address);
            }
        }
        Ok(())
    }

    cuGraphLaunch = 514, cuGraphLaunch_ptsz = 515 fn(exec: Handle, stream: Handle) {
        launch(exec, stream)
    }

    cuGraphUpload = 580, cuGraphUpload_ptsz = 581 fn(exec: Handle, stream: Handle) {
        let driver = driver()?;
        driver.context_of_stream(stream)?;
        driver.execs.get(exec).map(drop).ok_or(Error::INVALID_VALUE)
    }

    cuGraphAddMemAllocNode = 638 fn(
        node: Out<Handle>, graph: Handle, _dependencies: In<Handle>, _count: usize, params: Out<AllocationNodeParams>,
    ) {
        let mut asked = params.value()?;
        let device = {
            let driver = driver()?;
            crate::pool::located(&driver, asked.location_type, asked.location_id)?.ok_or(Error::INVALID_VALUE)?
        };
        let (added, address) = add_allocation(graph, device, asked.size as u64)?;
        asked.address = address;
        params.put(asked)?;
        node.put(added)
    }

    cuGraphAddMemFreeNode = 639 fn(
        node: Out<Handle>, graph: Handle, _dependencies: In<Handle>, _count: usize, address: u64,
    ) {
        node.put(add_free(graph, address)?)
    }

    cuGraphAddEmptyNode = 526 fn(node: Out<Handle>, graph: Handle, _dependencies: In<Handle>, _count: usize) {
        node.put(add_node(graph, |_| Ok(Node::Empty))?)
    }

    cuGraphGetNodes = 534 fn(graph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        let driver = driver()?;
        let graph = driver.graphs.get(graph).ok_or(Error::INVALID_VALUE)?;
        if !nodes.is_null() {
            let room = count.value()?;
            graph.nodes.iter().take(room).enumerate().for_each(|(index, &node)| nodes.at(index).offer(node));
        }
        count.put(graph.nodes.len())
    }
}
