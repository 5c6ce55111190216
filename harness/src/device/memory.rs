//! Reads the memory usage of whole devices. This usage is only advisory, because other processes
//! and the driver itself also use the devices. Finds these other processes, as far as permissions
//! allow.

#![expect(unsafe_code, reason = "passes raw handles to the driver's C functions")]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::captures;
use super::driver::{self, device_handle};
use super::exclusion::CONTEXT_EXCLUSION;
use crate::judge::{ContextLimits, DeviceUsage};
use crate::ledger::{self, Kind, Layer, Place};
use crate::recursion_guard::quiet;
use crate::units::total;

/// Whether devices are read. Only a benchmark switches this off.
static READ: AtomicBool = AtomicBool::new(true);

/// Stops reading whole devices, so that a benchmark can measure what the readings cost.
pub(crate) fn without_readings() {
    READ.store(false, Ordering::Relaxed);
}

/// Returns the memory usage of each device on which the ledger knows a live context. No context is
/// created, and a device without a context is not read. This takes 3.2 µs per device.
///
/// Nothing is read while a stream is being captured. A device whose context is broken is not read
/// either.
pub(crate) fn readings() -> Vec<DeviceUsage> {
    let _quiet = quiet();
    if !READ.load(Ordering::Relaxed) || captures::active() {
        return Vec::new();
    }
    let (Some(driver), Some(_reading)) = (driver::get(), CONTEXT_EXCLUSION.read()) else {
        return Vec::new();
    };
    let ledger = ledger::live();
    let contexts = ledger.contexts.all();
    let mut found: Vec<DeviceUsage> = Vec::new();
    for context in &contexts {
        let place = context.place;
        if context.handle == 0 || found.iter().any(|known| known.place == place) {
            continue;
        }
        let read = || {
            let (free, total) = driver.memory_info()?;
            // The limit is 0 if the driver does not provide it.
            let limit = |limit| driver.limit(limit).unwrap_or(0) as u64;
            let limits = ContextLimits {
                stack: limit(0),
                printf: limit(1),
                heap: limit(2),
            };
            Ok((total.saturating_sub(free), limits))
        };
        // SAFETY: the context is in the ledger, and no context is destroyed while `_reading`
        // exists.
        let Ok((used, limits)) = (unsafe { driver.in_context(context.handle, read) }) else {
            continue;
        };
        found.push(DeviceUsage {
            place,
            context: context.uid,
            used,
            limits,
            elsewhere: elsewhere(place),
            contexts: contexts.iter().filter(|it| it.place == place).count() as u64,
            code: ledger.live(Kind::Module) + ledger.live(Kind::Library),
        });
    }
    found
}

/// Returns the bytes of the driver's layer that a pool also counts, or that may be in host memory
/// or in the memory of another process.
fn elsewhere(place: Place) -> u64 {
    const KINDS: [Kind; 3] = [Kind::Managed, Kind::Imported, Kind::Graph];
    let ledger = ledger::live();
    // A search visits every record, so it is skipped if there are no records of these kinds, as in
    // most programs.
    if KINDS.iter().all(|kind| ledger.live(*kind) == 0) {
        return 0;
    }
    let there = ledger.select(|record| {
        let made = &record.made;
        made.layer == Layer::DRIVER && made.place == place && KINDS.contains(&made.kind)
    });
    total(there.iter().map(|record| record.made.bytes))
}

/// Returns the largest number of threads that a device can run at the same time; 0 if unknown.
/// Local memory is reserved for each of them.
pub(crate) fn resident_threads(place: Place) -> u64 {
    let _quiet = quiet();
    let (Some(driver), Some(device)) = (driver::get(), place.cuda_ordinal()) else {
        return 0;
    };
    // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT and …_MAX_THREADS_PER_MULTIPROCESSOR
    let count = |attribute| driver.device_attribute(attribute, device_handle(device));
    u64::try_from(count(16).unwrap_or(0) * count(39).unwrap_or(0)).unwrap_or(0)
}

/// Returns the other processes that visibly use CUDA, in the form `4242 (python3)`. This searches
/// `/proc`, which takes some milliseconds on a busy machine.
///
/// A process that uses CUDA keeps `/dev/nvidia-uvm` open. Processes of other users and in other
/// containers cannot be seen. No NVIDIA library is used for this, because loading one would cost
/// more than the whole check.
pub(crate) fn processes_that_use_cuda() -> Vec<String> {
    let [processes, device] = ["/proc", "/dev/nvidia-uvm"].map(Path::new);
    that_have_open(processes, std::process::id(), device)
}

/// Returns the processes listed in `processes`, except `own`, that have `device` open, sorted by
/// process ID.
fn that_have_open(processes: &Path, own: u32, device: &Path) -> Vec<String> {
    let entries = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    let numbers = entries(processes).filter_map(|it| it.file_name().to_str()?.parse().ok());
    let mut others: Vec<u32> = numbers.filter(|number| *number != own).collect();
    others.sort_unstable();
    let named = others.into_iter().filter_map(|number| {
        let process = processes.join(number.to_string());
        let mut files = entries(&process.join("fd"));
        files.find(|it| fs::read_link(it.path()).is_ok_and(|target| target == device))?;
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        Some(match name.trim_end() {
            "" => number.to_string(),
            name => format!("{number} ({name})"),
        })
    });
    named.collect()
}

#[cfg(all(test, unix))]
mod tests;
