//! The memory that the allocation nodes of graphs own, in the terms of `CUgraphMem_attribute`.
//!
//! The address is fixed when the node is created. From the first launch on, memory backs the
//! address. That memory stays reserved until a trim finds that nothing can launch the node again.

use std::collections::HashMap;

use crate::arena::Arena;
use crate::dispatch::{Out, api};
use crate::error::Error;
use crate::pool::BLOCK;
use crate::state::driver;

/// The address that an allocation node received, fixed for the life of its graph and of the
/// executable graphs made from it.
#[derive(Debug)]
struct Range {
    size: u64,
    graphs: u32,
    execs: u32,
    live: bool,
    /// Whether the node has been launched, so that memory backs the address.
    backed: bool,
}

impl Range {
    fn footprint(&self) -> u64 {
        self.size.next_multiple_of(BLOCK)
    }
}

/// The graph memory of one device.
#[derive(Debug)]
pub(crate) struct GraphMemory {
    addresses: Arena,
    ranges: HashMap<u64, Range>,
    used: u64,
    used_high: u64,
    reserved: u64,
    reserved_high: u64,
}

impl Default for GraphMemory {
    fn default() -> Self {
        Self {
            addresses: Arena::new(BLOCK),
            ranges: HashMap::new(),
            used: 0,
            used_high: 0,
            reserved: 0,
            reserved_high: 0,
        }
    }
}

impl GraphMemory {
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Assigns an address, without memory, to an allocation node.
    pub(crate) fn reserve(&mut self, size: u64) -> Option<u64> {
        let address = self.addresses.allocate(size)?;
        let range = Range {
            size,
            graphs: 1,
            execs: 0,
            live: false,
            backed: false,
        };
        self.ranges.insert(address, range);
        Some(address)
    }

    pub(crate) fn contains(&self, address: u64) -> bool {
        self.ranges.contains_key(&address)
    }

    /// Whether no executable graph has this address. Only one can have it at a time.
    pub(crate) fn is_free_to_instantiate(&self, address: u64) -> bool {
        self.ranges
            .get(&address)
            .is_some_and(|range| range.execs == 0)
    }

    /// Called when an executable graph was created.
    pub(crate) fn hold(&mut self, address: u64) {
        if let Some(range) = self.ranges.get_mut(&address) {
            range.execs += 1;
        }
    }

    /// Called when the executable graph of an address was destroyed.
    pub(crate) fn drop_exec(&mut self, address: u64) {
        if let Some(range) = self.ranges.get_mut(&address) {
            range.execs -= 1;
            self.forget(address);
        }
    }

    /// Called when the graph of an address was destroyed.
    pub(crate) fn drop_graph(&mut self, address: u64) {
        if let Some(range) = self.ranges.get_mut(&address) {
            range.graphs -= 1;
            self.forget(address);
        }
    }

    /// Called when a live allocation was freed, by a graph or outside of graphs.
    pub(crate) fn release(&mut self, address: u64) {
        let range = self
            .ranges
            .get_mut(&address)
            .expect("a live graph allocation has a range");
        range.live = false;
        self.used -= range.footprint();
        self.forget(address);
    }

    /// Backs the address with memory, and returns its size. Called when a launch reaches the node.
    pub(crate) fn make_live(&mut self, address: u64) -> u64 {
        let range = self
            .ranges
            .get_mut(&address)
            .expect("an exec keeps its ranges");
        range.live = true;
        range.backed = true;
        self.used += range.footprint();
        self.used_high = self.used_high.max(self.used);
        self.reserved = self.reserved.max(self.backed());
        self.reserved_high = self.reserved_high.max(self.reserved);
        self.ranges[&address].size
    }

    fn backed(&self) -> u64 {
        self.ranges
            .values()
            .filter(|range| range.backed)
            .map(Range::footprint)
            .sum()
    }

    /// Releases the memory that no launched graph holds.
    fn trim(&mut self) {
        for range in self
            .ranges
            .values_mut()
            .filter(|range| !range.live && range.execs == 0)
        {
            range.backed = false;
        }
        self.reserved = self.backed();
    }

    fn forget(&mut self, address: u64) {
        let Some(range) = self.ranges.get(&address) else {
            return;
        };
        if !range.live && range.graphs == 0 && range.execs == 0 {
            let size = range.size;
            self.ranges.remove(&address);
            self.addresses.free(address, size, true);
        }
    }
}

api! {
    cuDeviceGetGraphMemAttribute fn(device: i32, attribute: u32, value: Out<u64>) {
        let driver = driver()?;
        let device = driver.device(device)?;
        let memory = &driver.devices[device].graph;
        value.put(match attribute {
            0 => memory.used,
            1 => memory.used_high,
            2 => memory.reserved,
            3 => memory.reserved_high,
            _ => return Err(Error::INVALID_VALUE),
        })
    }

    cuDeviceSetGraphMemAttribute fn(device: i32, attribute: u32, value: Out<u64>) {
        let mut driver = driver()?;
        let device = driver.device(device)?;
        let memory = &mut driver.devices[device].graph;
        match (attribute, value.value()?) {
            (1, 0) => memory.used_high = memory.used,
            (3, 0) => memory.reserved_high = memory.reserved,
            _ => return Err(Error::INVALID_VALUE),
        }
        Ok(())
    }

    cuDeviceGraphMemTrim fn(device: i32) {
        let mut driver = driver()?;
        let device = driver.device(device)?;
        driver.devices[device].graph.trim();
        Ok(())
    }
}
