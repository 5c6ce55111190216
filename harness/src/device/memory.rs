//! What a whole device holds: advisory, for other processes and the driver itself share it.

#![expect(unsafe_code, reason = "a context is made current by its handle")]

use std::sync::atomic::{AtomicBool, Ordering};

use super::captures;
use super::driver;
use super::exclusion::CONTEXTS_AND_POOLS;
use super::quiet::quiet;
use crate::judge::{ContextLimits, DeviceUsage};
use crate::ledger::{self, ContextEntry, Kind, Layer, Place};

/// Whether devices are read. Only a benchmark ever turns it off.
static READ: AtomicBool = AtomicBool::new(true);

/// Reads no whole device from now on, so that a benchmark can tell its cost from the rest.
pub(crate) fn without_readings() {
    READ.store(false, Ordering::Relaxed);
}

/// The memory of each device on which the ledger knows a live context: none is ever made, and a
/// device without one is not asked. 3.2 µs a device.
///
/// Nothing while a stream is being captured, and nothing of a device whose context is broken.
pub(crate) fn readings() -> Vec<DeviceUsage> {
    let _quiet = quiet();
    if !READ.load(Ordering::Relaxed) || captures::active() {
        return Vec::new();
    }
    let (Some(driver), Some(_reading)) = (driver::get(), CONTEXTS_AND_POOLS.read()) else {
        return Vec::new();
    };
    let ledger = ledger::live();
    let contexts = ledger.contexts();
    let mut found: Vec<DeviceUsage> = Vec::new();
    for &ContextEntry {
        uid, handle, place, ..
    } in &contexts
    {
        if handle == 0 || found.iter().any(|known| known.place == place) {
            continue;
        }
        let read = || {
            let (free, total) = driver.memory_info()?;
            let limits = ContextLimits {
                stack: driver.limit(0),
                printf: driver.limit(1),
                heap: driver.limit(2),
            };
            Ok((total.saturating_sub(free), limits))
        };
        // SAFETY: the context is in the ledger, and none is destroyed while `_reading` lives.
        let Ok((used, limits)) = (unsafe { driver.in_context(handle, read) }) else {
            continue;
        };
        found.push(DeviceUsage {
            place,
            context: uid,
            used,
            limits,
            elsewhere: elsewhere(place),
            contexts: contexts.iter().filter(|it| it.place == place).count() as u64,
            code: ledger.live(Kind::Module) + ledger.live(Kind::Library),
        });
    }
    found
}

/// Bytes of the driver's layer that may lie in the host's memory or another process's, or that a
/// pool's own figures count.
fn elsewhere(place: Place) -> u64 {
    const KINDS: [Kind; 3] = [Kind::Managed, Kind::Imported, Kind::Graph];
    let ledger = ledger::live();
    // A search visits every record; most programs have none of these.
    if KINDS.iter().all(|kind| ledger.live(*kind) == 0) {
        return 0;
    }
    let there = ledger.select(|record| {
        let made = &record.made;
        made.layer == Layer::DRIVER && made.place == place && KINDS.contains(&made.kind)
    });
    there.iter().map(|record| record.made.bytes).sum()
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
