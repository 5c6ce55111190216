//! Graphs and their nodes.

use std::mem;

use crate::copy::Transfer;
use crate::dispatch::{Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::host_call::HostCall;
use crate::state::{Driver, driver};
use crate::user_object::{self, References};

/// One operation of a graph.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node {
    Empty,
    Kernel,
    Host(HostCall),
    Transfer(Transfer),
    Allocate {
        address: u64,
        device: usize,
    },
    Free(u64),
    /// A child graph, which the node owns.
    Child(Handle),
}

/// A graph: its nodes in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: Vec<Handle>,
    /// Whether the graph belongs to a node of another graph, and ends with that graph.
    is_child: bool,
    pub(crate) objects: References,
}

impl Graph {
    pub(crate) fn is_child(&self) -> bool {
        self.is_child
    }
}

impl Driver {
    /// Destroys a graph and its nodes, and the addresses and objects that only the graph held.
    pub(crate) fn destroy_graph(&mut self, graph: Handle) -> Result<(), Error> {
        self.graphs
            .get(graph)
            .filter(|graph| !graph.is_child)
            .ok_or(Error::INVALID_VALUE)?;
        self.drop_graph(graph);
        Ok(())
    }

    fn drop_graph(&mut self, graph: Handle) {
        self.empty_graph(graph);
        self.graphs.remove(graph);
    }

    /// Removes the nodes of a graph and its references to objects.
    pub(crate) fn empty_graph(&mut self, graph: Handle) {
        let Some(graph) = self.graphs.get_mut(graph) else {
            return;
        };
        let (nodes, objects) = (mem::take(&mut graph.nodes), mem::take(&mut graph.objects));
        for node in nodes {
            match self.nodes.remove(node) {
                Some(Node::Allocate { address, device }) => {
                    self.devices[device].graph.drop_graph(address);
                }
                Some(Node::Child(child)) => self.drop_graph(child),
                _ => {}
            }
        }
        self.drop_objects(objects);
    }

    /// The nodes of a graph, without those of its child graphs.
    fn nodes_of(&self, graph: Handle) -> Result<Vec<Node>, Error> {
        let graph = self.graphs.get(graph).ok_or(Error::INVALID_VALUE)?;
        let known = |&node| self.nodes.get(node).copied();
        Ok(graph.nodes.iter().filter_map(known).collect())
    }

    /// The operations of a graph. The nodes of a child graph take the place of the child node.
    pub(crate) fn operations(&self, graph: Handle) -> Result<Vec<Node>, Error> {
        let mut operations = Vec::new();
        for node in self.nodes_of(graph)? {
            match node {
                Node::Child(child) => operations.extend(self.operations(child)?),
                node => operations.push(node),
            }
        }
        Ok(operations)
    }

    /// Copies a graph. Graphs with memory nodes cannot be copied.
    fn copy_graph(&mut self, original: Handle, is_child: bool) -> Result<Handle, Error> {
        let has_memory = |node: &Node| matches!(node, Node::Allocate { .. } | Node::Free(_));
        if self.operations(original)?.iter().any(has_memory) {
            return Err(Error::NOT_SUPPORTED);
        }
        let mut nodes = Vec::new();
        for node in self.nodes_of(original)? {
            let node = match node {
                Node::Child(child) => Node::Child(self.copy_graph(child, true)?),
                node => node,
            };
            nodes.push(self.nodes.insert(node));
        }
        let references = self.graphs.get(original).map(|graph| graph.objects.clone());
        let objects = self.share_objects(&references.unwrap_or_default());
        Ok(self.graphs.insert(Graph {
            nodes,
            is_child,
            objects,
        }))
    }

    /// Returns the graph that a child node will own: a copy, or the graph itself.
    fn child_graph(&mut self, graph: Handle, moves: bool) -> Result<Handle, Error> {
        if !moves {
            return self.copy_graph(graph, true);
        }
        let moved = self
            .graphs
            .get_mut(graph)
            .filter(|graph| !graph.is_child)
            .ok_or(Error::INVALID_VALUE)?;
        moved.is_child = true;
        Ok(graph)
    }

    fn may_free(&self, graph: Handle, address: u64) -> Result<bool, Error> {
        let is_graph_memory = self
            .devices
            .iter()
            .any(|device| device.graph.contains(address));
        let is_freed = self
            .nodes_of(graph)?
            .iter()
            .any(|node| matches!(node, Node::Free(freed) if *freed == address));
        Ok(is_graph_memory && !is_freed)
    }
}

pub(crate) fn add_node(
    graph: Handle,
    make: impl FnOnce(&mut Driver) -> Result<Node, Error>,
) -> Result<Handle, Error> {
    driver()?.graphs.get(graph).ok_or(Error::INVALID_VALUE)?;
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
    Ok(node)
}

/// Adds an allocation node. Its address is fixed now, and a launch provides its memory.
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
        Ok(Node::Allocate { address, device })
    })?;
    Ok((node, address))
}

/// Adds a free node. It can free only graph memory, and only once in a graph.
pub(crate) fn add_free(graph: Handle, address: u64) -> Result<Handle, Error> {
    add_node(graph, |driver| {
        if driver.may_free(graph, address)? {
            Ok(Node::Free(address))
        } else {
            Err(Error::INVALID_VALUE)
        }
    })
}

/// Adds a node that owns a copy of another graph or, if `moves` is set, that graph itself.
pub(crate) fn add_child(graph: Handle, child: Handle, moves: bool) -> Result<Handle, Error> {
    if graph == child {
        return Err(Error::INVALID_VALUE);
    }
    add_node(graph, |driver| {
        Ok(Node::Child(driver.child_graph(child, moves)?))
    })
}

api! {
    cuGraphCreate fn(graph: Out<Handle>, flags: u32) {
        if flags != 0 {
            return Err(Error::INVALID_VALUE);
        }
        graph.put(driver()?.graphs.insert(Graph::default()))
    }

    cuGraphClone fn(clone: Out<Handle>, original: Handle) {
        clone.put(driver()?.copy_graph(original, false)?)
    }

    cuGraphDestroy fn(graph: Handle) {
        driver()?.destroy_graph(graph)?;
        user_object::run_destructors();
        Ok(())
    }

    cuGraphGetNodes fn(graph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        let driver = driver()?;
        let graph = driver.graphs.get(graph).ok_or(Error::INVALID_VALUE)?;
        if !nodes.is_null() {
            let room = count.value()?;
            graph.nodes.iter().take(room).enumerate().for_each(|(index, &node)| nodes.at(index).offer(node));
        }
        count.put(graph.nodes.len())
    }

    cuGraphChildGraphNodeGetGraph fn(node: Handle, graph: Out<Handle>) {
        match driver()?.nodes.get(node) {
            Some(&Node::Child(child)) => graph.put(child),
            _ => Err(Error::INVALID_VALUE),
        }
    }
}
