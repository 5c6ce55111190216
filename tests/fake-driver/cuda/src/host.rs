//! Page-locked host memory, which the driver has allocated or the program has registered.

use crate::dispatch::{Out, api};
use crate::error::Error;
use crate::memory::{Allocation, Kind};
use crate::state::{Driver, driver};

impl Driver {
    fn allocate_pinned(&mut self, size: u64, flags: u32) -> Result<u64, Error> {
        let context = self.current_handle()?;
        self.forbid_in_capture()?;
        if size == 0 {
            return Err(Error::INVALID_VALUE);
        }
        if size > 1 << 48 {
            return Err(Error::OUT_OF_MEMORY);
        }
        let device = self.contexts.get(context).expect("it is current").device;
        let address = self.pinned.allocate(size).ok_or(Error::OUT_OF_MEMORY)?;
        self.record(
            address,
            Allocation {
                kind: Kind::Pinned,
                size,
                device,
                context,
                owner: 0,
                flags,
            },
        );
        Ok(address)
    }

    fn host_range(&self, address: u64) -> Result<&Allocation, Error> {
        self.current()?;
        self.range_of(address)
            .map(|(_, allocation)| allocation)
            .filter(|allocation| matches!(allocation.kind, Kind::Pinned | Kind::Registered))
            .ok_or(Error::INVALID_VALUE)
    }
}

api! {
    cuMemHostAlloc, cuMemHostAlloc_v2 fn(address: Out<u64>, size: usize, flags: u32) {
        // The valid flags are portable, mapped and write-combined.
        if address.is_null() || flags > 7 {
            return Err(Error::INVALID_VALUE);
        }
        address.put(driver()?.allocate_pinned(size as u64, flags)?)
    }

    cuMemAllocHost_v2 fn(address: Out<u64>, size: usize) {
        if address.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        address.put(driver()?.allocate_pinned(size as u64, 0)?)
    }

    cuMemAllocHost fn(address: Out<u64>, size: u32) {
        if address.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        address.put(driver()?.allocate_pinned(u64::from(size), 0)?)
    }

    cuMemFreeHost fn(address: u64) {
        let mut driver = driver()?;
        driver.current_or_none()?;
        if address == 0 {
            return Ok(());
        }
        match driver.memory.get(&address).map(|allocation| allocation.kind) {
            Some(Kind::Pinned) => {
                driver.release(address, true);
                Ok(())
            }
            _ => Err(Error::INVALID_VALUE),
        }
    }

    cuMemHostRegister, cuMemHostRegister_v2 fn(address: u64, size: usize, flags: u32) {
        let mut driver = driver()?;
        let context = driver.current_handle()?;
        driver.forbid_in_capture()?;
        if address == 0 || size == 0 {
            return Err(Error::INVALID_VALUE);
        }
        let end = address.checked_add(size as u64).ok_or(Error::INVALID_VALUE)?;
        let before = driver.memory.range(..end).next_back();
        if before.is_some_and(|(&base, range)| base + range.size > address) {
            return Err(Error::HOST_MEMORY_ALREADY_REGISTERED);
        }
        let device = driver.contexts.get(context).expect("it is current").device;
        driver.record(
            address,
            Allocation { kind: Kind::Registered, size: size as u64, device, context, owner: 0, flags },
        );
        Ok(())
    }

    cuMemHostUnregister fn(address: u64) {
        let mut driver = driver()?;
        driver.current_or_none()?;
        let registered = driver.range_of(address).filter(|(_, it)| it.kind == Kind::Registered);
        let (base, _) = registered.ok_or(Error::HOST_MEMORY_NOT_REGISTERED)?;
        if base != address {
            return Err(Error::INVALID_VALUE);
        }
        driver.release(address, true);
        Ok(())
    }

    cuMemHostGetDevicePointer_v2 fn(device_address: Out<u64>, address: u64, _flags: u32) {
        driver()?.host_range(address)?;
        device_address.put(address)
    }

    cuMemHostGetFlags fn(flags: Out<u32>, address: u64) {
        flags.put(driver()?.host_range(address)?.flags)
    }
}
