//! Whole test suites in one process: many checks at once, checked tests alongside unchecked ones,
//! and tests that share resources.
//!
//! The suites are ignored. Tests next to them run each suite in a separate process, on the embedded
//! device and on a GPU if there is one. They repeat each run a few times, or a hundred times if
//! there is a GPU. `SUITE_RUNS` sets another number.

mod many;
mod runners;
mod shared;
mod unchecked;

use std::env;
use std::sync::OnceLock;

use gpu_leak_check::report::check_report::Report;
use gpu_leak_kernels::{Device, Result, Tensor};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::gpu;

/// The variable that tells a suite's process which device to use.
const DEVICE: &str = "SUITE_DEVICE";
/// The variable that tells a suite's process to create the device before the first check.
const WARM: &str = "SUITE_WARM";

/// Returns the device that the tests of a suite share. The first call creates it.
fn device() -> &'static Device {
    static SHARED: OnceLock<Device> = OnceLock::new();
    SHARED.get_or_init(|| {
        let device = match env::var(DEVICE).as_deref() {
            Ok("cuda") => Device::cuda(0),
            _ => Device::embedded(),
        };
        device.expect("the parent has seen that it is there")
    })
}

#[gpu_leak_check::warmup]
fn the_device_and_its_plans() {
    if env::var_os(WARM).is_some() {
        take(1).expect("memory");
        shared::fill_the_cache().expect("memory");
    }
}

/// Allocates a tensor of `blocks` times 512 bytes, which is the allocator's unit.
fn take(blocks: usize) -> Result<Tensor> {
    Tensor::zeros([blocks * BLOCK / size_of::<f32>()], device())
}

const BLOCK: usize = 512;

/// Returns the devices of this machine on which suites run.
fn devices() -> &'static [&'static str] {
    match gpu::is_present() {
        true => &["embedded", "cuda"],
        false => &["embedded"],
    }
}

/// Returns how many times to run a suite: `few` times, unless there is a GPU or the variable is
/// set.
fn runs(few: u64) -> u64 {
    let asked = env::var("SUITE_RUNS").ok();
    let asked = asked.map(|runs| runs.parse().expect("SUITE_RUNS is a number"));
    asked.unwrap_or(if gpu::is_present() { 100 } else { few })
}

/// Runs the suite in `module`, in a process that creates the device before the first check.
fn run_warm(module: &str, threads: u32, device: &str, variables: &[(&str, &str)]) -> Checked {
    let run = Run::of_all(module, threads)
        .env(DEVICE, device)
        .env(WARM, "1");
    let run = variables
        .iter()
        .fold(run, |run, (name, value)| run.env(name, value));
    checked::finish(run)
}

/// Returns the report of one test of a suite.
#[track_caller]
fn report<'a>(checked: &'a Checked, test: &str) -> &'a Report {
    let mut reports = checked.reports.iter();
    let report = reports.find(|report| report.test.ends_with(&format!("::{test}")));
    report.unwrap_or_else(|| panic!("no report of {test}\n{}", checked.output()))
}
