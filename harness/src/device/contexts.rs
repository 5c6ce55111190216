//! Lists the devices and determines whether they are in use, without creating a context.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::driver::{self, device_handle, error_name};
use crate::judge::DeviceName;
use crate::ledger::{self, Place};
use crate::recursion_guard::quiet;
use crate::sync::{Mutex, locked};

/// Whether the harness has initialised the driver, to find out whether there is a device.
static INITIALISED_BY_HARNESS: AtomicBool = AtomicBool::new(false);

/// Returns the name of a CUDA device; `None` for any other place, or if there is no driver.
pub(crate) fn device_name(place: Place) -> Option<DeviceName> {
    /// The names found so far. Every check asks for the names of its devices, which do not change.
    static KNOWN: Mutex<BTreeMap<usize, DeviceName>> = Mutex::new(BTreeMap::new());

    let _quiet = quiet();
    let driver = driver::get()?;
    let device = place.cuda_ordinal()?;
    if let Some(known) = locked(&KNOWN).get(&device) {
        return Some(known.clone());
    }
    let uuid = driver.device_uuid(device_handle(device)).ok();
    let name = DeviceName {
        name: driver.device_name(device).ok()?,
        uuid: uuid.map(format_uuid),
    };
    locked(&KNOWN).insert(device, name.clone());
    Some(name)
}

/// Formats a UUID in groups of 4, 2, 2, 2 and 6 bytes, as nvidia-smi does.
fn format_uuid(bytes: [u8; 16]) -> String {
    let hex = bytes.map(|byte| format!("{byte:02x}")).concat();
    let groups = [0..8, 8..12, 12..16, 16..20, 20..32].map(|group| &hex[group]);
    format!("GPU-{}", groups.join("-"))
}

/// Returns the devices with a live context: those whose contexts the ledger knows, and those whose
/// primary context existed before the harness did.
pub(crate) fn devices_in_use() -> Vec<usize> {
    let _quiet = quiet();
    let contexts = ledger::live().contexts.all();
    let mut devices = Vec::from_iter(contexts.iter().filter_map(|it| it.place.cuda_ordinal()));
    if let Some(driver) = driver::get() {
        let all = 0..driver.device_count().unwrap_or(0) as usize;
        let unknown = all.filter(|device| !devices.contains(device));
        let active = unknown.filter(|device| driver.primary_is_active(*device) == Ok(true));
        devices.extend(Vec::from_iter(active));
    }
    devices.sort();
    devices.dedup();
    devices
}

/// Whether the program uses the CUDA driver.
pub(crate) fn driver_in_use() -> bool {
    // A context that is not a primary context cannot be detected. So an initialised driver counts
    // as in use, unless the harness itself initialised it.
    is_initialised()
        && (!INITIALISED_BY_HARNESS.load(Ordering::Relaxed) || !devices_in_use().is_empty())
}

fn is_initialised() -> bool {
    let _quiet = quiet();
    driver::get().is_some_and(|driver| driver.device_count().is_ok_and(|count| count > 0))
}

/// Returns the reason why no device can be used on this machine; `None` if one can be used.
/// Initialises the driver if necessary.
pub(crate) fn missing() -> Option<&'static str> {
    static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let _quiet = quiet();
        let driver = driver::load()?;
        let was_initialised = is_initialised();
        driver.initialise(0).map_err(error_name)?;
        INITIALISED_BY_HARNESS.fetch_or(!was_initialised, Ordering::Relaxed);
        Ok(())
    });
    found.as_ref().err().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::format_uuid;

    #[test]
    fn a_uuid_reads_as_nvidia_smi_writes_it() {
        let bytes = std::array::from_fn(|index| index as u8 * 0x11);
        assert_eq!(
            format_uuid(bytes),
            "GPU-00112233-4455-6677-8899-aabbccddeeff"
        );
    }
}
