//! What benchmarks need of the inside: the harness at work without a test. Outside SemVer, and
//! made for this project's own benchmarks alone.

use crate::api::cuda;
use crate::ledger::StackId;
use crate::report::model::{CheckStatus, Report};
use crate::report::text::{self, Rendering};
use crate::{capture, check, device, observe};

/// Starts what the first check of a process starts: ears for sources.
pub fn start() {
    observe::listen();
    let _ = cuda::begin_check();
}

/// Tells of no call of the driver's from now on: what is left is what every wrapped call costs.
pub fn without_listening() {
    cuda::stop();
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
