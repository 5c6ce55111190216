//! Virtual memory management: address ranges, and the mappings of physical memory into them.

#![expect(unsafe_code, reason = "maps and remaps address ranges")]

use std::os::fd::AsRawFd as _;

use crate::dispatch::{In, Out, api};
use crate::error::Error;
use crate::handle::Handle;
use crate::memory::{Allocation, Kind};
use crate::physical::{GRANULARITY, is_granular};
use crate::pool::located;
use crate::state::{Driver, driver};

/// Reserves a range of addresses without giving access to it, so that nothing else uses it.
fn reserve_at(address: Option<u64>, size: u64) -> Result<u64, Error> {
    let fixed = if address.is_some() {
        libc::MAP_FIXED
    } else {
        0
    };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    let hint = address.unwrap_or(0) as *mut libc::c_void;
    // SAFETY: either the kernel chooses the address, or it is that of a range that this driver has
    // reserved before.
    let mapped = unsafe { libc::mmap(hint, size as usize, libc::PROT_NONE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        Err(Error::OUT_OF_MEMORY)
    } else {
        Ok(mapped as u64)
    }
}

fn unmap(address: u64, size: u64) {
    // SAFETY: the mapping belongs to this driver, and nothing in it is live any longer.
    unsafe { libc::munmap(address as *mut libc::c_void, size as usize) };
}

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    pub(crate) kind: u32,
    pub(crate) id: i32,
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
        let object = self.physical_of(handle)?;
        let physical = self
            .physical
            .get_mut(object)
            .expect("a handle keeps its memory");
        // Memory is mapped as a whole (observed on an H200).
        if is_granular(size) && (size, offset) != (physical.size, 0) {
            return Err(Error::NOT_SUPPORTED);
        }
        if !is_granular(size) || !is_reserved || is_taken {
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
        physical.uses += 1;
        let device = physical.device.unwrap_or(0);
        self.record(
            address,
            Allocation {
                kind: Kind::Mapped,
                size,
                device,
                context: 0,
                owner: object,
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
        // Pages without memory may also be unmapped (observed on an H200).
        let mut ranges = self.reserved_ranges.range(..=address);
        let is_reserved = ranges
            .next_back()
            .is_some_and(|(base, length)| address + size <= base + length);
        let is_whole = |(base, it): &(u64, Allocation)| {
            it.kind == Kind::Mapped && base + it.size <= address + size
        };
        let before = self
            .range_of(address)
            .is_some_and(|(base, _)| base < address);
        if !is_reserved || before || !inside.iter().all(is_whole) {
            return Err(Error::INVALID_VALUE);
        }
        for (base, allocation) in inside {
            self.release(base, true);
            self.end_use(allocation.owner);
        }
        reserve_at(Some(address), size).map(drop)
    }
}

api! {
    cuMemAddressReserve fn(address: Out<u64>, size: usize, alignment: usize, _wanted: u64, _flags: u64) {
        address.put(driver()?.reserve(size as u64, alignment as u64)?)
    }

    cuMemAddressFree fn(address: u64, size: usize) {
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

    cuMemMap fn(address: u64, size: usize, offset: usize, handle: Handle, _flags: u64) {
        driver()?.map(address, size as u64, offset as u64, handle)
    }

    cuMemUnmap fn(address: u64, size: usize) {
        driver()?.unmap_range(address, size as u64)
    }

    cuMemSetAccess fn(address: u64, size: usize, _access: In<u64>, _count: usize) {
        let driver = driver()?;
        let covered: u64 = driver.memory.range(address..address + size as u64).map(|(_, mapped)| mapped.size).sum();
        if covered == size as u64 { Ok(()) } else { Err(Error::INVALID_VALUE) }
    }

    cuMemGetAccess fn(flags: Out<u64>, location: In<Location>, address: u64) {
        let driver = driver()?;
        let Location { kind, id } = location.get()?;
        located(&driver, kind, id)?;
        driver.range_of(address).filter(|(_, range)| range.kind == Kind::Mapped).ok_or(Error::INVALID_VALUE)?;
        // The access is for reading and writing.
        flags.put(3)
    }
}
