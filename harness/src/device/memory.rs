//! What the whole device has free: advisory, for other processes and the driver itself share it.

#![expect(unsafe_code, reason = "a context is made current by its handle")]

use super::contexts::devices_in_use;
use super::driver;
use super::exclusion::CONTEXTS_AND_POOLS;
use crate::capture::quiet::quiet;
use crate::ledger::{self, Place};

/// The memory of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceMemory {
    /// The device.
    pub(crate) place: Place,
    /// Bytes that the system calls free.
    pub(crate) free: u64,
    /// Bytes in all.
    pub(crate) total: u64,
}

/// The memory of each device on which the ledger has seen a live context. About 3 µs a device.
pub(crate) fn readings() -> Vec<DeviceMemory> {
    let _quiet = quiet();
    let (Some(driver), Some(_reading)) = (driver::get(), CONTEXTS_AND_POOLS.read()) else {
        return Vec::new();
    };
    let contexts = ledger::live().contexts();
    let read = |device| {
        let place = Place::cuda(device);
        let context = contexts.iter().find(|context| context.place == place)?;
        // SAFETY: the context is in the ledger, and none is destroyed while `_reading` lives.
        let info = unsafe { driver.in_context(context.handle, || driver.memory_info()) };
        let (free, total) = info.ok()?;
        Some(DeviceMemory { place, free, total })
    };
    devices_in_use().into_iter().filter_map(read).collect()
}
