//! Multicast objects: a team of devices, and the memory that is bound for each device. Like
//! physical memory, these objects have handles, and are mapped and released.

use std::collections::BTreeSet;

use crate::dispatch::{In, Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::memory::Kind;
use crate::physical::{AllocationProp, GRANULARITY, is_granular, memory_file};
use crate::state::{Driver, driver};

/// The properties of a multicast object other than its size.
#[derive(Debug)]
pub(crate) struct Multicast {
    team_size: usize,
    team: BTreeSet<usize>,
    bound: Vec<Bound>,
}

/// Memory bound for one device.
#[derive(Clone, Copy, Debug)]
struct Bound {
    device: usize,
    offset: u64,
    size: u64,
    memory: u64,
}

/// `CUmulticastObjectProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MulticastProp {
    devices: u32,
    size: usize,
    handle_types: u64,
    flags: u64,
}

impl Multicast {
    /// The bound memory, with one entry for each binding.
    pub(crate) fn into_bound(self) -> impl Iterator<Item = u64> {
        self.bound.into_iter().map(|bound| bound.memory)
    }
}

/// One requested binding: both ranges are `size` bytes long.
#[derive(Clone, Copy, Debug)]
struct Binding {
    multicast: Handle,
    offset: u64,
    memory: u64,
    memory_offset: u64,
    size: u64,
}

impl Driver {
    fn multicast(&mut self, handle: Handle) -> Result<(u64, &mut Multicast), Error> {
        let object = self.physical_of(handle)?;
        let physical = self
            .physical
            .get_mut(object)
            .expect("a handle keeps its memory");
        let size = physical.size;
        let multicast = physical.multicast.as_mut().ok_or(Error::INVALID_VALUE)?;
        Ok((size, multicast))
    }

    fn bind(&mut self, binding: Binding, device: Option<usize>) -> Result<(), Error> {
        let memory = self
            .physical
            .get(binding.memory)
            .filter(|memory| memory.multicast.is_none())
            .ok_or(Error::INVALID_VALUE)?;
        let (memory_size, owner) = (memory.size, memory.device);
        let device = device.or(owner).ok_or(Error::INVALID_VALUE)?;
        let (size, multicast) = self.multicast(binding.multicast)?;
        let fits = |offset: u64, size: u64| {
            offset.is_multiple_of(GRANULARITY)
                && offset
                    .checked_add(binding.size)
                    .is_some_and(|end| end <= size)
        };
        let is_full_team = multicast.team.len() == multicast.team_size;
        let overlaps = multicast.bound.iter().any(|bound| {
            bound.device == device
                && bound.offset < binding.offset + binding.size
                && binding.offset < bound.offset + bound.size
        });
        if !is_granular(binding.size)
            || !fits(binding.offset, size)
            || !fits(binding.memory_offset, memory_size)
            || !is_full_team
            || !multicast.team.contains(&device)
            || overlaps
        {
            return Err(Error::INVALID_VALUE);
        }
        multicast.bound.push(Bound {
            device,
            offset: binding.offset,
            size: binding.size,
            memory: binding.memory,
        });
        self.physical
            .get_mut(binding.memory)
            .expect("it was just found")
            .uses += 1;
        Ok(())
    }

    fn unbind(
        &mut self,
        handle: Handle,
        device: usize,
        offset: u64,
        size: u64,
    ) -> Result<(), Error> {
        let (_, multicast) = self.multicast(handle)?;
        let is_meant = |bound: &Bound| {
            bound.device == device
                && bound.offset >= offset
                && bound.offset + bound.size <= offset.saturating_add(size)
        };
        let (gone, kept): (Vec<Bound>, Vec<Bound>) =
            multicast.bound.iter().copied().partition(is_meant);
        if gone.is_empty() {
            return Err(Error::INVALID_VALUE);
        }
        multicast.bound = kept;
        for bound in gone {
            self.end_use(bound.memory);
        }
        Ok(())
    }
}

fn bind_memory(
    multicast: Handle,
    device: Option<i32>,
    offset: usize,
    memory: Handle,
    memory_offset: usize,
    size: usize,
) -> Result<(), Error> {
    let mut driver = driver()?;
    let device = device.map(|device| driver.device(device)).transpose()?;
    let binding = Binding {
        multicast,
        offset: offset as u64,
        memory: driver.physical_of(memory)?,
        memory_offset: memory_offset as u64,
        size: size as u64,
    };
    driver.bind(binding, device)
}

fn bind_address(
    multicast: Handle,
    device: Option<i32>,
    offset: usize,
    address: u64,
    size: usize,
) -> Result<(), Error> {
    let mut driver = driver()?;
    let device = device.map(|device| driver.device(device)).transpose()?;
    let (base, mapped) = driver
        .range_of(address)
        .filter(|(_, range)| range.kind == Kind::Mapped)
        .ok_or(Error::INVALID_VALUE)?;
    let binding = Binding {
        multicast,
        offset: offset as u64,
        memory: mapped.owner,
        memory_offset: address - base,
        size: size as u64,
    };
    driver.bind(binding, device)
}

api! {
    cuMulticastCreate fn(handle: Out<Handle>, prop: In<MulticastProp>) {
        let prop = prop.get()?;
        let mut driver = driver()?;
        let (team_size, size) = (prop.devices as usize, prop.size as u64);
        if handle.is_null() || !is_granular(size) || !(1..=driver.devices.len()).contains(&team_size) {
            return Err(Error::INVALID_VALUE);
        }
        let as_memory = AllocationProp {
            kind: 1,
            handle_types: prop.handle_types as u32,
            location_type: 0,
            location_id: 0,
            metadata: 0,
            flags: 0,
        };
        let made = driver.new_physical(as_memory, size, None, memory_file(size)?);
        let object = driver.physical_of(made)?;
        driver.physical.get_mut(object).expect("it was just made").multicast =
            Some(Multicast { team_size, team: BTreeSet::new(), bound: Vec::new() });
        handle.put(made)
    }

    cuMulticastAddDevice fn(handle: Handle, device: i32) {
        let mut driver = driver()?;
        let device = driver.device(device)?;
        let (_, multicast) = driver.multicast(handle)?;
        if multicast.team.len() == multicast.team_size || !multicast.team.insert(device) {
            return Err(Error::INVALID_VALUE);
        }
        Ok(())
    }

    cuMulticastBindMem fn(
        multicast: Handle, offset: usize, memory: Handle, memory_offset: usize, size: usize, _flags: u64,
    ) {
        bind_memory(multicast, None, offset, memory, memory_offset, size)
    }

    cuMulticastBindMem_v2 fn(
        multicast: Handle, device: i32, offset: usize, memory: Handle, memory_offset: usize, size: usize, _flags: u64,
    ) {
        bind_memory(multicast, Some(device), offset, memory, memory_offset, size)
    }

    cuMulticastBindAddr fn(multicast: Handle, offset: usize, address: u64, size: usize, _flags: u64) {
        bind_address(multicast, None, offset, address, size)
    }

    cuMulticastBindAddr_v2 fn(
        multicast: Handle, device: i32, offset: usize, address: u64, size: usize, _flags: u64,
    ) {
        bind_address(multicast, Some(device), offset, address, size)
    }

    cuMulticastUnbind fn(multicast: Handle, device: i32, offset: usize, size: usize) {
        let mut driver = driver()?;
        let device = driver.device(device)?;
        driver.unbind(multicast, device, offset as u64, size as u64)
    }

    cuMulticastGetGranularity fn(granularity: Out<usize>, _prop: In<MulticastProp>, _option: u32) {
        let _initialised = driver()?;
        granularity.put(GRANULARITY as usize)
    }
}
