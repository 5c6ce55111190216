//! Virtual memory management: address ranges, physical memory, and the mappings between them.
//!
//! Physical memory is a memory file, so that two mappings of it show the same bytes. It lives while a handle or
//! a mapping holds it (`cuMemRelease`, `cuMemUnmap` in `cuda.h`).

#![expect(unsafe_code, reason = "address ranges are mapped and remapped by hand")]

use std::fs::File;
use std::os::fd::{AsRawFd as _, FromRawFd as _};

use crate::dispatch::{In, Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::memory::{Allocation, Kind};
use crate::pool::located;
use crate::state::{Driver, driver};

/// What sizes and addresses are multiples of.
const GRANULARITY: u64 = 2 << 20;

/// Physical memory, by the handle it was made under.
#[derive(Debug)]
pub(crate) struct Physical {
    pub(crate) size: u64,
    device: usize,
    handles: u32,
    maps: u32,
    content: File,
}

/// `CUmemAllocationProp`: 32 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationProp {
    kind: u32,
    handle_types: u32,
    location_type: u32,
    location_id: i32,
    metadata: u64,
    flags: u64,
}

fn is_granular(size: u64) -> bool {
    size != 0 && size.is_multiple_of(GRANULARITY)
}

/// A file of `size` bytes that exists in memory only.
fn memory_file(size: u64) -> Result<File, Error> {
    // SAFETY: the name is a C string, and the answer is checked.
    let descriptor =
        unsafe { libc::memfd_create(c"fake cuda physical memory".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(Error::OUT_OF_MEMORY);
    }
    // SAFETY: a fresh descriptor that nobody else has.
    let file = unsafe { File::from_raw_fd(descriptor) };
    file.set_len(size).map_err(|_| Error::OUT_OF_MEMORY)?;
    Ok(file)
}

/// Puts nothing behind a range of addresses, and keeps anyone else from using it.
fn reserve_at(address: Option<u64>, size: u64) -> Result<u64, Error> {
    let fixed = if address.is_some() {
        libc::MAP_FIXED
    } else {
        0
    };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    let hint = address.unwrap_or(0) as *mut libc::c_void;
    // SAFETY: either the kernel chooses the place, or it is a range that this driver has reserved before.
    let mapped = unsafe { libc::mmap(hint, size as usize, libc::PROT_NONE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        Err(Error::OUT_OF_MEMORY)
    } else {
        Ok(mapped as u64)
    }
}

fn unmap(address: u64, size: u64) {
    // SAFETY: a mapping of this driver's own, of which nothing is live any more.
    unsafe { libc::munmap(address as *mut libc::c_void, size as usize) };
}

impl Driver {
    fn reserve(&mut self, size: u64, alignment: u64) -> Result<u64, Error> {
        let alignment = alignment.max(GRANULARITY);
        if !is_granular(size) || !alignment.is_power_of_two() {
            return Err(Error::INVALID_VALUE);
        }
        let wide = size.checked_add(alignment).ok_or(Error::OUT_OF_MEMORY)?;
        let start = reserve_at(None, wide)?;
        let address = start.next_multiple_of(alignment);
        if address > start {
            unmap(start, address - start);
        }
        if address + size < start + wide {
            unmap(address + size, start + wide - address - size);
        }
        self.reserved_ranges.insert(address, size);
        Ok(address)
    }

    fn map(&mut self, address: u64, size: u64, offset: u64, handle: Handle) -> Result<(), Error> {
        let reserved = self.reserved_ranges.range(..=address).next_back();
        let is_reserved = reserved.is_some_and(|(&base, &length)| address + size <= base + length);
        let is_taken = self.memory.range(address..address + size).next().is_some()
            || self.range_of(address).is_some();
        let physical = self
            .physical
            .get_mut(handle)
            .filter(|physical| physical.handles > 0)
            .ok_or(Error::INVALID_VALUE)?;
        if !is_granular(size) || offset + size > physical.size || !is_reserved || is_taken {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the range is reserved by this driver and nothing is mapped in it.
        let mapped = unsafe {
            libc::mmap(
                address as *mut libc::c_void,
                size as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED,
                physical.content.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if mapped == libc::MAP_FAILED {
            return Err(Error::OUT_OF_MEMORY);
        }
        physical.maps += 1;
        let device = physical.device;
        self.record(
            address,
            Allocation {
                kind: Kind::Mapped,
                size,
                device,
                context: 0,
                owner: handle,
                flags: 0,
            },
        );
        Ok(())
    }

    fn unmap_range(&mut self, address: u64, size: u64) -> Result<(), Error> {
        let inside: Vec<(u64, Allocation)> = self
            .memory
            .range(address..address + size)
            .map(|(&base, allocation)| (base, *allocation))
            .collect();
        let covered: u64 = inside.iter().map(|(_, allocation)| allocation.size).sum();
        if covered != size
            || inside
                .iter()
                .any(|(_, allocation)| allocation.kind != Kind::Mapped)
        {
            return Err(Error::INVALID_VALUE);
        }
        for (base, allocation) in inside {
            self.release(base, true);
            self.physical
                .get_mut(allocation.owner)
                .expect("a mapping keeps its memory")
                .maps -= 1;
            self.forget_physical(allocation.owner);
        }
        reserve_at(Some(address), size).map(drop)
    }

    fn forget_physical(&mut self, handle: Handle) {
        let Some(physical) = self.physical.get(handle) else {
            return;
        };
        if physical.handles == 0 && physical.maps == 0 {
            let physical = self.physical.remove(handle).expect("it was just found");
            self.devices[physical.device].pages -= physical.size;
            self.devices[physical.device].allocated -= physical.size;
        }
    }
}

api! {
    cuMemAddressReserve = 547 fn(address: Out<u64>, size: usize, alignment: usize, _wanted: u64, _flags: u64) {
        address.put(driver()?.reserve(size as u64, alignment as u64)?)
    }

    cuMemAddressFree = 548 fn(address: u64, size: usize) {
        let mut driver = driver()?;
        let size = size as u64;
        if driver.reserved_ranges.get(&address) != Some(&size) {
            return Err(Error::INVALID_VALUE);
        }
        if driver.memory.range(address..address + size).next().is_some() {
            return Err(Error::INVALID_VALUE);
        }
        driver.reserved_ranges.remove(&address);
        unmap(address, size);
        Ok(())
    }

    cuMemCreate = 549 fn(handle: Out<Handle>, size: usize, prop: In<AllocationProp>, _flags: u64) {
        let (size, prop) = (size as u64, prop.get()?);
        let mut driver = driver()?;
        let device = located(&driver, prop.location_type, prop.location_id)?.ok_or(Error::NOT_SUPPORTED)?;
        // Pinned is the only type.
        if !is_granular(size) || prop.kind != 1 || handle.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        driver.admit(device, size, size)?;
        let content = memory_file(size)?;
        driver.devices[device].pages += size;
        driver.devices[device].allocated += size;
        handle.put(driver.physical.insert(Physical { size, device, handles: 1, maps: 0, content }))
    }

    cuMemRelease = 550 fn(handle: Handle) {
        let mut driver = driver()?;
        let physical = driver.physical.get_mut(handle).ok_or(Error::INVALID_VALUE)?;
        physical.handles = physical.handles.checked_sub(1).ok_or(Error::INVALID_VALUE)?;
        driver.forget_physical(handle);
        Ok(())
    }

    cuMemMap = 551 fn(address: u64, size: usize, offset: usize, handle: Handle, _flags: u64) {
        driver()?.map(address, size as u64, offset as u64, handle)
    }

    cuMemUnmap = 552 fn(address: u64, size: usize) {
        driver()?.unmap_range(address, size as u64)
    }

    cuMemSetAccess = 553 fn(address: u64, size: usize, _access: In<u64>, _count: usize) {
        let driver = driver()?;
        let covered: u64 = driver.memory.range(address..address + size as u64).map(|(_, mapped)| mapped.size).sum();
        if covered == size as u64 { Ok(()) } else { Err(Error::INVALID_VALUE) }
    }

    cuMemGetAllocationGranularity = 556 fn(granularity: Out<usize>, _prop: In<AllocationProp>, _option: u32) {
        let _initialised = driver()?;
        granularity.put(GRANULARITY as usize)
    }

    cuMemRetainAllocationHandle = 565 fn(handle: Out<Handle>, address: u64) {
        let mut driver = driver()?;
        let mapped = driver.range_of(address).filter(|(_, allocation)| allocation.kind == Kind::Mapped);
        let physical = mapped.ok_or(Error::INVALID_VALUE)?.1.owner;
        driver.physical.get_mut(physical).expect("a mapping keeps its memory").handles += 1;
        handle.put(physical)
    }
}
