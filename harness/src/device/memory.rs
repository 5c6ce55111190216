//! What a whole device holds: advisory, for other processes and the driver itself share it.

#![expect(unsafe_code, reason = "a context is made current by its handle")]

use serde::{Deserialize, Serialize};

use std::sync::atomic::{AtomicBool, Ordering};

use super::captures;
use super::driver;
use super::exclusion::CONTEXTS_AND_POOLS;
use super::quiet::quiet;
use crate::ledger::event::ContextUid;
use crate::ledger::{self, ContextEntry, Place};

/// Sizes that a context has set apart on its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limits {
    /// `CU_LIMIT_STACK_SIZE`: local memory of one thread. The driver raises it by itself when a
    /// kernel needs more, and never lowers it.
    pub(crate) stack: u64,
    /// `CU_LIMIT_PRINTF_FIFO_SIZE`: the buffer of `printf`.
    pub(crate) printf: u64,
    /// `CU_LIMIT_MALLOC_HEAP_SIZE`: what kernels allocate from.
    pub(crate) heap: u64,
}

/// Whether devices are read. Only a benchmark ever turns it off.
static READ: AtomicBool = AtomicBool::new(true);

/// Reads no whole device from now on, so that a benchmark can tell its cost from the rest.
pub(crate) fn without_readings() {
    READ.store(false, Ordering::Relaxed);
}

/// The memory of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceMemory {
    /// The device.
    pub(crate) place: Place,
    /// The context that was asked.
    pub(crate) context: ContextUid,
    /// Bytes in use, whoever uses them.
    pub(crate) used: u64,
    /// What that context has set apart.
    pub(crate) limits: Limits,
}

/// The memory of each device on which the ledger knows a live context: none is ever made, and a
/// device without one is not asked. 3.2 µs a device.
///
/// Nothing while a stream is being captured, and nothing of a device whose context is broken.
pub(crate) fn readings() -> Vec<DeviceMemory> {
    let _quiet = quiet();
    if !READ.load(Ordering::Relaxed) || captures::active() {
        return Vec::new();
    }
    let (Some(driver), Some(_reading)) = (driver::get(), CONTEXTS_AND_POOLS.read()) else {
        return Vec::new();
    };
    let mut found: Vec<DeviceMemory> = Vec::new();
    for ContextEntry {
        uid, handle, place, ..
    } in ledger::live().contexts()
    {
        if handle == 0 || found.iter().any(|known| known.place == place) {
            continue;
        }
        // SAFETY: the context is in the ledger, and none is destroyed while `_reading` lives.
        let read = unsafe {
            driver.in_context(handle, || {
                let (free, total) = driver.memory_info()?;
                Ok(DeviceMemory {
                    place,
                    context: uid,
                    used: total.saturating_sub(free),
                    limits: Limits {
                        stack: driver.limit(0),
                        printf: driver.limit(1),
                        heap: driver.limit(2),
                    },
                })
            })
        };
        found.extend(read.ok());
    }
    found
}

/// How many threads a device runs at once: each has local memory set apart. 0 where nobody knows.
pub(crate) fn resident_threads(place: Place) -> u64 {
    let _quiet = quiet();
    let (Some(driver), Some(device)) = (driver::get(), place.cuda_ordinal()) else {
        return 0;
    };
    // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT and …_MAX_THREADS_PER_MULTIPROCESSOR
    driver.device_attribute(device, 16) * driver.device_attribute(device, 39)
}
