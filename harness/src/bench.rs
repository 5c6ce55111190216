//! What benchmarks need of the inside: the harness at work without a test. Outside SemVer, and
//! made for this project's own benchmarks alone.

use crate::ledger::StackId;
use crate::report::model::{CheckStatus, Report};
use crate::report::text::{self, Rendering};
use crate::{capture, check, device, observe};

/// Starts what the first check of a process starts: ears for sources, and CUPTI.
///
/// # Errors
///
/// Why the driver's calls cannot be watched.
pub fn start() -> Result<(), String> {
    observe::listen();
    match capture::cupti::start() {
        Ok(_) => Ok(()),
        Err(why) => Err(why.to_string()),
    }
}

/// Takes no stacks from now on.
pub fn without_stacks() {
    capture::without_stacks();
}

/// This thread's stack, as a callback takes it.
#[must_use]
pub fn stack() -> StackId {
    capture::stack()
}

/// The same from the exact engine alone.
#[must_use]
pub fn exact_stack() -> StackId {
    capture::exact_stack()
}

/// Reads no whole device from now on.
pub fn without_device_readings() {
    device::memory::without_readings();
}

/// The CUPTI domain and id of everything that is watched.
#[must_use]
pub fn watched() -> Vec<(u32, u32)> {
    capture::cupti::watched().collect()
}

/// Where CUPTI is looked for, the best first.
///
/// # Errors
///
/// What is wrong with `GPU_LEAK_CHECK_CUPTI`.
pub fn cupti_candidates() -> Result<Vec<std::path::PathBuf>, String> {
    capture::cupti::candidates().map_err(|why| why.to_string())
}

/// Checks `body` on this thread, from the reading before it to the report, and answers whether it
/// left nothing.
///
/// # Panics
///
/// When the run's settings are wrong.
pub fn leaves_nothing(body: impl FnOnce()) -> bool {
    checked(body).status == CheckStatus::Clean
}

/// Checks `body` on this thread, and answers with what a failing test would tell of it.
///
/// # Panics
///
/// When the run's settings are wrong.
#[must_use]
pub fn told(body: impl FnOnce()) -> String {
    text::to_string(&checked(body), &Rendering::for_stderr())
}

fn checked(body: impl FnOnce()) -> Report {
    match check::check_here("benchmark", body) {
        Ok(report) => report,
        Err(why) => panic!("gpu-leak-check: {why}"),
    }
}
