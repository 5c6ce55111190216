//! What `cargo gpu-leak` needs from the library beyond the report's data. Outside SemVer: the
//! command and the library are released together.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::api::cuda::{self, Reach};
use crate::check::blind;
pub use crate::check::movements::{Did, Movements, Step, Taken, movements};
use crate::device::contexts;
use crate::device::driver::{self, Driver};
use crate::report::model::{Reason, Report};

/// An `[[allow]]` entry of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowEntry {
    /// Its location, in the form of [`AllowedBy::stands_in`](crate::report::model::AllowedBy::stands_in):
    /// `gpu-leak-check.toml:12`.
    pub stands_in: String,
    /// Why it may stay.
    pub reason: String,
}

/// Returns the `[[allow]]` entries of the configuration file at `path`, which reports call `shown`.
///
/// # Errors
///
/// `file:line:column: what is wrong`.
pub fn allow_entries(path: &Path, shown: &str) -> Result<Vec<AllowEntry>, String> {
    let entries = crate::config::entries_of(path, shown)?;
    let told = |entry: crate::suppressions::Suppression| AllowEntry {
        stands_in: entry.stands_in,
        reason: entry.reason,
    };
    Ok(entries.into_iter().map(told).collect())
}

/// Checks the environment variables of this process that checks read.
///
/// # Errors
///
/// The message with which every check would fail.
pub fn variables() -> Result<(), String> {
    crate::config::variables_of_this_process()
}

/// Whether the file at `path` is a recording, judged by its first line.
#[must_use]
pub fn is_recording(path: &Path) -> bool {
    let mut start = Vec::new();
    let file = File::open(path);
    let read = file.and_then(|file| file.take(256).read_to_end(&mut start));
    let schema = format!("\"schema\":\"{}\"", crate::capture::recording::SCHEMA);
    read.is_ok() && String::from_utf8_lossy(&start).contains(&schema)
}

/// Recomputes the fingerprints of a report that an older release wrote, from the backtraces in the
/// report, so that two runs can be compared although fingerprints were computed differently.
pub fn renew_fingerprints(report: &mut Report) {
    for finding in &mut report.findings {
        let Some(kind) = finding.resource else {
            continue;
        };
        let failed = finding.failed.as_mut().map(|failed| &mut failed.site);
        for site in std::iter::once(&mut finding.site).chain(failed) {
            if let Some(renewed) = crate::call_site::renewed_fingerprint(kind, site) {
                site.fingerprint = renewed;
            }
        }
    }
}

/// What checks can see on this machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The CUDA version that the driver supports, or why there is none.
    pub driver: Result<String, String>,
    /// For example `cuda:0 NVIDIA H200`.
    pub devices: Vec<String>,
    /// Whether the driver's calls are intercepted here, or why not.
    pub heard: Result<(), Reason>,
}

/// Examines the machine as a check would, and initialises the driver.
#[must_use]
pub fn machine() -> Machine {
    let missing = contexts::missing();
    let driver = driver::load();
    Machine {
        devices: match (&driver, missing) {
            (Ok(driver), None) => names(driver),
            _ => Vec::new(),
        },
        driver: driver.map(|driver| {
            let version = driver.version().unwrap_or(0);
            format!("{}.{}", version / 1000, version % 1000 / 10)
        }),
        heard: match blind::missing() {
            Some(reason) => Err(reason),
            None if cuda::reach() == Reach::EveryLookup => Ok(()),
            None => Err(blind::unheard()),
        },
    }
}

fn names(driver: &Driver) -> Vec<String> {
    let name = |device| {
        let name = driver.device_name(device);
        format!("cuda:{device} {}", name.unwrap_or_default())
    };
    (0..driver.device_count().unwrap_or(0)).map(name).collect()
}
