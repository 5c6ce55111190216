//! What `cargo gpu-leak` uses in addition to the public data of reports. It is not covered by
//! SemVer, because the command and this library are released together.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::api::{self, Reach};
use crate::check::blind;
#[cfg(any(test, fuzzing, feature = "command"))]
pub use crate::check::movements::{Movements, RecordedAllocation, Step, StepKind, movements};
use crate::check::outcome::weigh;
use crate::config::CheckSettings;
pub use crate::config::{
    RunSettings, allow_entries, nearest_file, run_settings, unmatched_overrides, variables,
};
use crate::device::contexts;
use crate::device::driver::{self, Driver, error_name};
use crate::judge::Subject;
pub use crate::judge::suppressions::{Pattern, Suppression};
use crate::options::Options;
use crate::report::Code;
use crate::report::check_report::{CheckStatus, Reason, Report};
pub use crate::report::{NamedRun, SESSION, missing_file, run_file_name, run_files};
pub use gpu_leak_check_options::is_reason;

/// Whether a pattern in the `tests` of an entry matches this test.
pub fn is_for_test(pattern: &str, test: &str) -> bool {
    wildmatch::WildMatch::new(pattern).matches(test)
}

/// What a test program contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Whether the program links this library, which then watches the program from inside.
    pub harness: bool,
    /// Whether the program contains allocators that report through `gpu-leak-hooks`.
    pub hooks: bool,
}

/// Returns what the program at `path` contains, judging by its ELF notes; nothing if the file
/// cannot be read.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub fn contents(path: &Path) -> Contents {
    use object::Object;
    let file = crate::loader::mapped::file(path);
    let file = file.and_then(|bytes| object::read::elf::NativeElfFile::parse(bytes).ok());
    let has = |name| {
        let file: Option<&object::read::elf::NativeElfFile<'_>> = file.as_ref();
        file.is_some_and(|file| file.section_by_name(name).is_some())
    };
    Contents {
        harness: has(".note.gpu-leak-check"),
        hooks: has(".note.gpu-leak-hooks"),
    }
}

/// On other systems, nothing is known about programs.
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
pub fn contents(_path: &Path) -> Contents {
    Contents::default()
}

/// Returns the report on the test program `name` at `path`, whose allocators report their blocks
/// although no harness receives the reports. The report includes its outcome according to the run's
/// policy.
pub fn unheard_allocators(name: &str, path: &str) -> Report {
    let subject = Subject {
        test: name.to_owned(),
        file: path.to_owned(),
        ..Subject::default()
    };
    let report = Report {
        reason: Some(Reason::new(
            Code::Unheard,
            "its allocators report through gpu-leak-hooks, but the harness is not linked into this \
             program to receive the reports",
            "add gpu-leak-check as a dev-dependency and put `use gpu_leak_check as _;` in the test \
             file, or `#[cfg(test)] use gpu_leak_check as _;` in src/lib.rs for unit tests",
        )),
        ..Report::about(subject, CheckStatus::NotMeasured)
    };
    // An invalid setting is ignored here, because every check reports it.
    let settings = CheckSettings::of(name, None, &Options::DEFAULT, &[]).unwrap_or_default();
    Report {
        outcome: Some(weigh(&report, &settings.policy, None)),
        ..report
    }
}

/// Whether the file at `path` is a recording, judging by its first line.
pub fn is_recording(path: &Path) -> bool {
    let mut start = Vec::new();
    let file = File::open(path);
    let read = file.and_then(|file| file.take(256).read_to_end(&mut start));
    let schema = format!("\"schema\":\"{}\"", crate::capture::recording::SCHEMA);
    read.is_ok() && String::from_utf8_lossy(&start).contains(&schema)
}

/// The drivers and devices that checks can see on this machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The CUDA version that the driver supports, or why there is no usable driver.
    pub driver: Result<String, String>,
    /// The devices, for example `cuda:0 NVIDIA H200`.
    pub devices: Vec<String>,
    /// Whether the driver's calls are intercepted in this process, or why they are not.
    pub heard: Result<(), Reason>,
}

/// Examines the machine as a check does. Initialises the driver.
pub fn machine() -> Machine {
    let missing = contexts::missing();
    let driver = driver::load();
    Machine {
        devices: match (&driver, missing) {
            (Ok(driver), None) => names(driver),
            _ => Vec::new(),
        },
        driver: driver.and_then(|driver| driver.cuda_version().map_err(error_name)),
        heard: match blind::missing() {
            Some(reason) => Err(reason),
            None if api::reach() == Reach::EveryLookup => Ok(()),
            None => Err(blind::unheard()),
        },
    }
}

fn names(driver: &Driver) -> Vec<String> {
    let name = |device| {
        let name = driver.device_name(device);
        format!("cuda:{device} {}", name.unwrap_or_default())
    };
    let devices = 0..driver.device_count().unwrap_or(0) as usize;
    devices.map(name).collect()
}
