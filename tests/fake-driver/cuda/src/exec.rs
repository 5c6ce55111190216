//! Executable graphs: what they hold, and what a launch does to graph memory.

use std::collections::HashMap;
use std::mem::discriminant;

use crate::dispatch::{Out, api};
use crate::error::Error;
use crate::graph::Node;
use crate::handle::Handle;
use crate::host_call::HostCall;
use crate::memory::{Allocation, Kind};
use crate::state::{Driver, driver};
use crate::user_object::{self, References};

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`.
const AUTO_FREE_ON_LAUNCH: u64 = 1;

/// An instantiated graph.
#[derive(Debug)]
pub(crate) struct Exec {
    operations: Vec<Node>,
    flags: u64,
    objects: References,
}

impl Exec {
    /// Returns the addresses and devices of the allocation nodes.
    fn allocations(&self) -> Vec<(u64, usize)> {
        allocations(&self.operations)
    }
}

fn allocations(operations: &[Node]) -> Vec<(u64, usize)> {
    let allocation = |node: &Node| match *node {
        Node::Allocate { address, device } => Some((address, device)),
        _ => None,
    };
    operations.iter().filter_map(allocation).collect()
}

impl Driver {
    fn instantiate(&mut self, graph: Handle, flags: u64) -> Result<Handle, Error> {
        self.current()?;
        let operations = self.operations(graph)?;
        self.hold_memory(&operations, &[])?;
        let references = self.graphs.get(graph).map(|graph| graph.objects.clone());
        let objects = self.share_objects(&references.unwrap_or_default());
        Ok(self.execs.insert(Exec {
            operations,
            flags,
            objects,
        }))
    }

    /// Records that an executable graph holds the memory that `operations` allocate. So far, it
    /// held `own`. A graph with memory nodes can have only one executable graph at a time.
    fn hold_memory(&mut self, operations: &[Node], own: &[(u64, usize)]) -> Result<(), Error> {
        let allocations = allocations(operations);
        let is_free = |it: &(u64, usize)| {
            own.contains(it) || self.devices[it.1].graph.is_free_to_instantiate(it.0)
        };
        if !allocations.iter().all(is_free) {
            return Err(Error::NOT_SUPPORTED);
        }
        for (address, device) in allocations {
            self.devices[device].graph.hold(address);
        }
        Ok(())
    }

    /// Makes further launches of an executable graph do what `graph` does. Both must have the same
    /// nodes. Memory that an earlier launch has allocated stays live (observed on an H200).
    fn update(&mut self, exec: Handle, graph: Handle) -> Result<(), Error> {
        let operations = self.operations(graph)?;
        let found = self.execs.get(exec).ok_or(Error::INVALID_VALUE)?;
        let is_same = |(new, old): (&Node, &Node)| discriminant(new) == discriminant(old);
        if operations.len() != found.operations.len()
            || !operations.iter().zip(&found.operations).all(is_same)
        {
            return Err(Error::GRAPH_EXEC_UPDATE_FAILURE);
        }
        let own = found.allocations();
        self.hold_memory(&operations, &own)?;
        let references = self.graphs.get(graph).map(|graph| graph.objects.clone());
        let objects = self.share_objects(&references.unwrap_or_default());
        let exec = self.execs.get_mut(exec).expect("it was just found");
        let updated = Exec {
            operations,
            objects,
            ..*exec
        };
        let before = std::mem::replace(exec, updated);
        self.drop_exec(before);
        Ok(())
    }

    fn destroy_exec(&mut self, exec: Handle) -> Result<(), Error> {
        let exec = self.execs.remove(exec).ok_or(Error::INVALID_VALUE)?;
        self.drop_exec(exec);
        Ok(())
    }

    fn drop_exec(&mut self, exec: Exec) {
        for (address, device) in exec.allocations() {
            self.devices[device].graph.drop_exec(address);
        }
        self.drop_objects(exec.objects);
    }

    /// Whether every address that the launch allocates is free, and all memory that it frees is
    /// live.
    fn can_launch(&self, exec: &Exec) -> bool {
        // The changes that this launch would have made so far to the current state of the memory.
        let mut live: HashMap<u64, bool> = HashMap::new();
        if exec.flags & AUTO_FREE_ON_LAUNCH != 0 {
            live.extend(
                exec.allocations()
                    .into_iter()
                    .map(|(address, _)| (address, false)),
            );
        }
        exec.operations.iter().all(|node| {
            let (address, wanted) = match *node {
                Node::Allocate { address, .. } => (address, false),
                Node::Free(address) => (address, true),
                _ => return true,
            };
            let is_live = live.insert(address, !wanted);
            is_live.unwrap_or_else(|| self.memory.contains_key(&address)) == wanted
        })
    }

    /// Runs a graph. Returns its host functions, which must be called without holding the lock.
    fn launch(&mut self, exec: Handle) -> Result<Vec<HostCall>, Error> {
        let mut calls = Vec::new();
        let exec = self.execs.get(exec).ok_or(Error::INVALID_VALUE)?;
        if !self.can_launch(exec) {
            return Err(Error::INVALID_VALUE);
        }
        let (operations, allocations) = (exec.operations.clone(), exec.allocations());
        // Without auto-free, none of these addresses is live here.
        for (address, _) in allocations {
            self.release(address, true);
        }
        for node in operations {
            match node {
                Node::Allocate { address, device } => {
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
                Node::Host(call) => calls.push(call),
                Node::Empty | Node::Kernel | Node::Child(_) => {}
            }
        }
        Ok(calls)
    }
}

fn launch(exec: Handle, stream: Handle) -> Result<(), Error> {
    let calls = {
        let mut driver = driver()?;
        driver.context_of_stream(stream)?;
        driver.forbid_on_capturing(stream)?;
        driver.launch(exec)?
    };
    calls.into_iter().for_each(HostCall::run);
    Ok(())
}

fn instantiate(exec: Out<Handle>, graph: Handle, flags: u64) -> Result<(), Error> {
    if exec.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    exec.put(driver()?.instantiate(graph, flags)?)
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
    cuGraphInstantiate, cuGraphInstantiate_v2 fn(
        exec: Out<Handle>, graph: Handle, _error_node: Out<Handle>, _log: Out<u8>, _capacity: usize,
    ) {
        instantiate(exec, graph, 0)
    }

    cuGraphInstantiateWithFlags fn(exec: Out<Handle>, graph: Handle, flags: u64) {
        instantiate(exec, graph, flags)
    }

    cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz fn(
        exec: Out<Handle>, graph: Handle, params: Out<InstantiateParams>,
    ) {
        let mut answered = params.value()?;
        instantiate(exec, graph, answered.flags)?;
        answered.result = 0;
        params.put(answered)
    }

    cuGraphExecGetFlags fn(exec: Handle, flags: Out<u64>) {
        flags.put(driver()?.execs.get(exec).ok_or(Error::INVALID_VALUE)?.flags)
    }

    cuGraphExecUpdate fn(exec: Handle, graph: Handle, error_node: Out<Handle>, result: Out<u32>) {
        error_node.offer(0);
        result.offer(0);
        driver()?.update(exec, graph)?;
        user_object::run_destructors();
        Ok(())
    }

    // The result is a struct of a code and two nodes.
    cuGraphExecUpdate_v2 fn(exec: Handle, graph: Handle, result: Out<[u64; 3]>) {
        result.offer([0; 3]);
        driver()?.update(exec, graph)?;
        user_object::run_destructors();
        Ok(())
    }

    cuGraphExecDestroy fn(exec: Handle) {
        driver()?.destroy_exec(exec)?;
        user_object::run_destructors();
        Ok(())
    }

    cuGraphLaunch, cuGraphLaunch_ptsz fn(exec: Handle, stream: Handle) {
        launch(exec, stream)
    }

    cuGraphUpload, cuGraphUpload_ptsz fn(exec: Handle, stream: Handle) {
        let driver = driver()?;
        driver.context_of_stream(stream)?;
        driver.execs.get(exec).map(drop).ok_or(Error::INVALID_VALUE)
    }
}
