//! `cargo gpu-leak doctor --self-test`: whether checks find leaks that are planted on this machine.
//!
//! A child process plants the leaks, because a driver may end the process, and because the process
//! must not have used a driver before.

use std::env;
use std::process::Command;

use gpu_leak_check::Scope;
use gpu_leak_check::report::check_report::{Finding, Report};
use gpu_leak_check::report::{escape, headline};
use gpu_leak_check::units::quantity;
use tempfile::NamedTempFile;

use super::plant::{Cuda, Observed, Plant, Vulkan};
use crate::exit::{Exit, ExitResult, Failure};
use crate::launch;
use crate::output::print;

/// Runs the plants in a child process. Returns how the command ends.
pub(super) fn run() -> ExitResult<Exit> {
    let this = env::current_exe().unwrap_or_default();
    // With settings that switch checks off or tolerate something, the self-test would find less.
    let no_settings = NamedTempFile::new()
        .map_err(|why| Failure::usage(format!("cannot create a temporary file: {why}")))?;
    let mut plants = Command::new(this);
    plants
        .args(["doctor", "--plant"])
        .env("GPU_LEAK_CHECK", "auto")
        .env("GPU_LEAK_CHECK_CONFIG", no_settings.path());
    let status = launch::run(plants, |why| format!("cannot start the self-test: {why}"))?;
    let ends = [Exit::Clean, Exit::Findings, Exit::Unmeasured];
    let end = ends
        .into_iter()
        .find(|end| status.code() == Some(i32::from(end.code())));
    end.ok_or_else(|| Failure {
        exit: Exit::Findings,
        message: format!(
            "the self-test ended early ({status}), while testing the kind that follows the last one \
             listed above"
        ),
    })
}

#[derive(Debug, Default)]
struct Tally {
    found: u64,
    missed: u64,
    /// The number of found plants that belong to a driver.
    by_drivers: u64,
}

/// Plants each kind, and prints for each whether a check found it.
pub(super) fn plant() -> Exit {
    let mut tally = Tally::default();
    try_all(
        "observed allocator",
        || Ok(Observed),
        Observed::PLANTS,
        &mut tally,
    );
    let observed = tally.found;
    try_all("CUDA", Cuda::start, Cuda::PLANTS, &mut tally);
    try_all("Vulkan", Vulkan::start, Vulkan::PLANTS, &mut tally);
    tally.by_drivers = tally.found - observed;
    let (verdict, exit) = tally.verdict();
    print(&format!("\n{verdict}\n"));
    exit
}

impl Tally {
    fn verdict(&self) -> (String, Exit) {
        let tried = quantity(self.found + self.missed, "kind");
        match self {
            Self { missed: 1.., .. } => (
                format!(
                    "checks missed {} of the {tried} of leak that were planted",
                    self.missed
                ),
                Exit::Findings,
            ),
            Self { by_drivers: 0, .. } => (
                "neither CUDA nor Vulkan could be tried here: only allocators that report their \
                 blocks were checked"
                    .to_owned(),
                Exit::Unmeasured,
            ),
            _ => (
                format!("checks found a leak of every kind that could be planted here ({tried})"),
                Exit::Clean,
            ),
        }
    }
}

/// Starts an API, and plants each of its leaks in a scope of its own.
fn try_all<Api>(
    name: &str,
    start: fn() -> Result<Api, String>,
    plants: &[Plant<Api>],
    tally: &mut Tally,
) {
    // The first use of a driver gets its own scope, because calls are watched only after the first
    // scope has begun.
    let mut api = match checked(name, start).0 {
        Ok(api) => api,
        Err(why) => return tell(name, &format!("not tried: {why}")),
    };
    for plant in plants {
        let label = format!("{name}: {}", plant.kind.name());
        let (planted, report) = checked(&label, || (plant.plant)(&mut api));
        match (planted, plant.is_in(&report)) {
            (Err(why), _) => tell(&label, &format!("not tried: {why}")),
            (Ok(()), Some(finding)) => {
                tally.found += 1;
                tell(&label, &format!("found: {}", finding.what()));
            }
            (Ok(()), None) => {
                tally.missed += 1;
                tell(&label, &format!("NOT FOUND: {}", headline(&report)));
            }
        }
    }
}

fn checked<T>(name: &str, work: impl FnOnce() -> T) -> (T, Report) {
    let scope = Scope::open(name);
    let result = scope.in_scope(work);
    (result, scope.finish())
}

fn tell(label: &str, text: &str) {
    print(&format!("{label}: {}\n", escape::sentence(text)));
}

impl<Api> Plant<Api> {
    /// Returns the finding about this plant, whether or not the configuration file allows it.
    fn is_in<'a>(&self, report: &'a Report) -> Option<&'a Finding> {
        let mut findings = report.findings.iter();
        findings.find(|finding| {
            let bytes = self.bytes.map(|bytes| bytes as u64);
            finding.resource == Some(self.kind)
                && finding.count == 1
                && bytes.is_none_or(|bytes| finding.bytes == bytes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Exit, Observed, Tally, checked};

    #[test]
    fn a_planted_leak_is_found_by_kind_and_size_in_its_own_scope_only() {
        let [plant] = Observed::PLANTS else {
            panic!("one allocator")
        };
        let (planted, report) = checked("a plant", || (plant.plant)(&mut Observed));
        planted.expect("nothing prevents it");
        let finding = plant.is_in(&report).expect("a finding");
        assert_eq!(
            finding.what(),
            "4.00 KiB device memory, allocator:self-test"
        );
        let (_, other) = checked("nothing planted", || ());
        assert!(plant.is_in(&other).is_none());
    }

    #[test]
    fn a_missed_leak_is_a_failure_and_a_missing_driver_is_not_a_success() {
        let end = |found, missed, by_drivers| {
            let tally = Tally {
                found,
                missed,
                by_drivers,
            };
            tally.verdict().1
        };
        assert_eq!(end(5, 0, 4), Exit::Clean);
        assert_eq!(end(5, 1, 4), Exit::Findings);
        assert_eq!(end(1, 0, 0), Exit::Unmeasured);
    }
}
