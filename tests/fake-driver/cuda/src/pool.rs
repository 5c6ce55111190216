//! Stream-ordered memory: each device's default pool, explicit pools, and their attributes.

use crate::arena::{self, Arena};
use crate::dispatch::{In, Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::memory::{Allocation, Kind};
use crate::physical::FILE_DESCRIPTOR;
use crate::state::{Driver, driver};
use crate::vmm::Location;

/// The size of the blocks in which a pool allocates memory from its device, as measured on an H200.
pub(crate) const BLOCK: u64 = 32 << 20;

/// `CU_MEM_ALLOCATION_TYPE_MANAGED`.
const MANAGED: u32 = 2;

/// A stream-ordered pool.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The device whose memory the pool uses: `None` for a pool in host or managed memory.
    pub(crate) device: Option<usize>,
    pub(crate) arena: Arena,
    pub(crate) used: u64,
    live: usize,
    is_default: bool,
    /// Whether the pool belongs to another process, so that nothing can be allocated from it.
    is_import: bool,
    /// Whether the pool was created for handles that other processes can open.
    is_shareable: bool,
    /// Whether the owner has destroyed the pool, which then exists until its last allocation is
    /// freed.
    destroyed: bool,
    reserved_high: u64,
    used_high: u64,
    /// The number of bytes that the pool keeps when the host synchronises.
    threshold: u64,
    /// Reuse policies, which have no effect here because every operation completes immediately.
    reuse: [u32; 3],
}

impl Pool {
    pub(crate) fn default_of(device: usize) -> Self {
        Self {
            is_default: true,
            ..Self::new(Some(device))
        }
    }

    pub(crate) fn imported(device: Option<usize>) -> Self {
        Self {
            is_import: true,
            ..Self::new(device)
        }
    }

    pub(crate) fn is_import(&self) -> bool {
        self.is_import
    }

    pub(crate) fn is_shareable(&self) -> bool {
        self.is_shareable
    }

    fn new(device: Option<usize>) -> Self {
        Self {
            device,
            arena: Arena::new(BLOCK),
            used: 0,
            live: 0,
            is_default: false,
            is_import: false,
            is_shareable: false,
            destroyed: false,
            reserved_high: 0,
            used_high: 0,
            threshold: 0,
            reuse: [1; 3],
        }
    }

    /// Marks frees as observed, and releases excess memory. Called when the host has synchronised.
    pub(crate) fn observe(&mut self) {
        self.arena.observe();
        self.arena.trim(self.threshold);
    }

    pub(crate) fn counts_as_live(&self) -> bool {
        !self.is_default && !self.destroyed
    }
}

impl Driver {
    pub(crate) fn pool(&self, handle: Handle) -> Result<&Pool, Error> {
        self.pools
            .get(handle)
            .filter(|pool| !pool.destroyed)
            .ok_or(Error::INVALID_VALUE)
    }

    fn pool_mut(&mut self, handle: Handle) -> Result<&mut Pool, Error> {
        self.pools
            .get_mut(handle)
            .filter(|pool| !pool.destroyed)
            .ok_or(Error::INVALID_VALUE)
    }

    pub(crate) fn pool_to_allocate_from(&self, handle: Handle) -> Result<&Pool, Error> {
        let pool = self.pool(handle)?;
        (!pool.is_import)
            .then_some(pool)
            .ok_or(Error::INVALID_VALUE)
    }

    fn allocate_from_pool(
        &mut self,
        handle: Handle,
        size: u64,
        stream: Handle,
    ) -> Result<u64, Error> {
        // Only a default stream needs a current context (observed on an H200).
        let device = self.device_of_stream(stream)?;
        if size == 0 {
            return Err(Error::INVALID_VALUE);
        }
        if size > 1 << 48 {
            return Err(Error::OUT_OF_MEMORY);
        }
        let pool = self.pool_to_allocate_from(handle)?;
        self.admit(pool.device.unwrap_or(device), size, pool.arena.growth(size))?;
        let pool = self.pool_mut(handle)?;
        let address = pool.arena.allocate(size).ok_or(Error::OUT_OF_MEMORY)?;
        pool.live += 1;
        pool.used += arena::rounded(size);
        pool.used_high = pool.used_high.max(pool.used);
        pool.reserved_high = pool.reserved_high.max(pool.arena.reserved());
        let device = pool.device.unwrap_or(device);
        self.record(
            address,
            Allocation {
                kind: Kind::StreamOrdered,
                size,
                device,
                context: 0,
                owner: handle,
                flags: 0,
            },
        );
        Ok(address)
    }

    fn set_current_pool(&mut self, device: usize, handle: Handle) -> Result<(), Error> {
        let pool = self.pool(handle)?;
        if pool.is_import {
            return Err(Error::INVALID_VALUE);
        }
        if pool.device != Some(device) {
            return Err(Error::INVALID_DEVICE);
        }
        self.devices[device].current_pool = handle;
        Ok(())
    }

    pub(crate) fn release_to_pool(
        &mut self,
        handle: Handle,
        address: u64,
        size: u64,
        observed: bool,
    ) {
        let pool = self
            .pools
            .get_mut(handle)
            .expect("a pool outlives its allocations");
        pool.arena.free(address, size, observed);
        pool.live -= 1;
        pool.used -= arena::rounded(size);
        if pool.destroyed && pool.live == 0 {
            self.pools.remove(handle);
        }
    }
}

/// `CUmemPoolProps`: 88 bytes. Only the location matters here.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolProps {
    allocation_type: u32,
    handle_types: u32,
    location_type: u32,
    location_id: i32,
    rest: [u64; 9],
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`, `…_HOST`, `…_HOST_NUMA`, `…_HOST_NUMA_CURRENT`.
pub(crate) fn located(driver: &Driver, kind: u32, id: i32) -> Result<Option<usize>, Error> {
    match kind {
        1 => driver.device(id).map(Some),
        2..=4 => Ok(None),
        _ => Err(Error::INVALID_VALUE),
    }
}

/// Returns the device at a location. Fails unless the location and the kind of memory are those of
/// a device's pools.
fn pooling(driver: &Driver, location: In<Location>, kind: u32) -> Result<usize, Error> {
    let Location { kind: place, id } = location.get()?;
    if kind != 1 {
        return Err(Error::NOT_SUPPORTED);
    }
    located(driver, place, id)?.ok_or(Error::NOT_SUPPORTED)
}

api! {
    cuMemAllocAsync, cuMemAllocAsync_ptsz fn(address: Out<u64>, size: usize, stream: Handle) {
        if address.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        if let Some(node) = crate::capture::allocate(stream, size as u64, None)? {
            return address.put(node);
        }
        let mut driver = driver()?;
        let device = driver.device_of_stream(stream)?;
        let pool = driver.devices[device].current_pool;
        address.put(driver.allocate_from_pool(pool, size as u64, stream)?)
    }

    cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz fn(address: Out<u64>, size: usize, pool: Handle, stream: Handle) {
        if address.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        if let Some(node) = crate::capture::allocate(stream, size as u64, Some(pool))? {
            return address.put(node);
        }
        address.put(driver()?.allocate_from_pool(pool, size as u64, stream)?)
    }

    cuMemFreeAsync, cuMemFreeAsync_ptsz fn(address: u64, stream: Handle) {
        if crate::capture::free(stream, address)? {
            return Ok(());
        }
        let mut driver = driver()?;
        driver.device_of_stream(stream)?;
        match driver.memory.get(&address).map(|allocation| allocation.kind) {
            // Linear memory may also be freed in stream order (observed on an H200).
            Some(Kind::StreamOrdered | Kind::Graph | Kind::PoolImport | Kind::Linear | Kind::Pitched) => {
                driver.release(address, false);
                Ok(())
            }
            Some(Kind::Managed) => Err(Error::NOT_SUPPORTED),
            _ => Err(Error::INVALID_VALUE),
        }
    }

    cuDeviceGetDefaultMemPool fn(pool: Out<Handle>, device: i32) {
        let driver = driver()?;
        let device = driver.device(device)?;
        pool.put(driver.devices[device].default_pool)
    }

    cuMemGetDefaultMemPool fn(pool: Out<Handle>, location: In<Location>, kind: u32) {
        let driver = driver()?;
        pool.put(driver.devices[pooling(&driver, location, kind)?].default_pool)
    }

    cuMemGetMemPool fn(pool: Out<Handle>, location: In<Location>, kind: u32) {
        let driver = driver()?;
        pool.put(driver.devices[pooling(&driver, location, kind)?].current_pool)
    }

    cuMemSetMemPool fn(location: In<Location>, kind: u32, pool: Handle) {
        let mut driver = driver()?;
        let device = pooling(&driver, location, kind)?;
        driver.set_current_pool(device, pool)
    }

    cuDeviceGetMemPool fn(pool: Out<Handle>, device: i32) {
        let driver = driver()?;
        let device = driver.device(device)?;
        pool.put(driver.devices[device].current_pool)
    }

    cuDeviceSetMemPool fn(device: i32, pool: Handle) {
        let mut driver = driver()?;
        let device = driver.device(device).map_err(|_| Error::INVALID_VALUE)?;
        driver.set_current_pool(device, pool)
    }

    cuMemPoolCreate fn(pool: Out<Handle>, props: In<PoolProps>) {
        if pool.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        let props = props.get()?;
        let mut driver = driver()?;
        let device = located(&driver, props.location_type, props.location_id);
        let device = device.map_err(|_| Error::INVALID_VALUE)?;
        let device = device.filter(|_| props.allocation_type != MANAGED);
        let is_shareable = props.handle_types & FILE_DESCRIPTOR != 0;
        pool.put(driver.pools.insert(Pool { is_shareable, ..Pool::new(device) }))
    }

    cuMemPoolDestroy fn(pool: Handle) {
        let mut driver = driver()?;
        let found = driver.pool_mut(pool)?;
        if found.is_default {
            return Err(Error::INVALID_VALUE);
        }
        found.destroyed = true;
        let is_empty = found.live == 0;
        for device in &mut driver.devices {
            if device.current_pool == pool {
                device.current_pool = device.default_pool;
            }
        }
        if is_empty {
            driver.pools.remove(pool);
        }
        Ok(())
    }

    cuMemPoolTrimTo fn(pool: Handle, keep: usize) {
        driver()?.pool_mut(pool)?.arena.trim(keep as u64);
        Ok(())
    }

    cuMemPoolGetAttribute fn(pool: Handle, attribute: u32, value: Out<u8>) {
        let driver = driver()?;
        let pool = driver.pool(pool)?;
        match attribute {
            1..=3 => value.cast::<u32>().put(pool.reuse[attribute as usize - 1]),
            4 => value.cast::<u64>().put(pool.threshold),
            5 => value.cast::<u64>().put(pool.arena.reserved()),
            6 => value.cast::<u64>().put(pool.reserved_high),
            7 => value.cast::<u64>().put(pool.used),
            8 => value.cast::<u64>().put(pool.used_high),
            _ => Err(Error::INVALID_VALUE),
        }
    }

    cuMemPoolSetAttribute fn(pool: Handle, attribute: u32, value: Out<u8>) {
        let mut driver = driver()?;
        let pool = driver.pool_mut(pool)?;
        match attribute {
            1..=3 => pool.reuse[attribute as usize - 1] = value.cast::<u32>().value()?,
            4 => pool.threshold = value.cast::<u64>().value()?,
            // The high-water marks can only be reset.
            6 if value.cast::<u64>().value()? == 0 => pool.reserved_high = pool.arena.reserved(),
            8 if value.cast::<u64>().value()? == 0 => pool.used_high = pool.used,
            _ => return Err(Error::INVALID_VALUE),
        }
        Ok(())
    }

    cuMemPoolSetAccess fn(pool: Handle, _map: In<u8>, _count: usize) {
        driver()?.pool(pool).map(drop)
    }

    cuMemPoolGetAccess fn(flags: Out<u32>, pool: Handle, _location: In<u8>) {
        driver()?.pool(pool)?;
        flags.put(3)
    }
}
