//! The interface for this project's own benchmarks, which use the harness without a test. It is not
//! covered by SemVer.

use crate::api;
use crate::ledger::StackId;
use crate::report::check_report::{CheckStatus, Report};
use crate::report::text::{self, Rendering};
use crate::{Scope, capture, device, observe};

/// Begins to accept reports from sources and finds the driver, as the first check of a process
/// does.
pub fn start() {
    observe::listen();
    let _ = api::begin_check();
}

/// Stops reporting driver calls, so that only the fixed cost of a wrapped call remains.
pub fn without_listening() {
    api::stop();
}

/// Stops capturing backtraces.
pub fn without_stacks() {
    capture::without_stacks();
}

/// Returns this thread's backtrace, captured as a wrapper captures it.
#[must_use]
pub fn stack() -> StackId {
    capture::stack()
}

/// Returns this thread's backtrace, captured by the exact unwinder alone.
#[must_use]
pub fn exact_stack() -> StackId {
    capture::exact_stack()
}

/// Stops reading the memory usage of whole devices.
pub fn without_device_readings() {
    device::memory::without_readings();
}

/// Checks `body` on this thread, from the baseline to the report, and returns whether it left
/// nothing.
///
/// # Panics
///
/// Panics if the run's settings are invalid.
pub fn leaves_nothing(body: impl FnOnce()) -> bool {
    checked(body).status == CheckStatus::Clean
}

/// Checks `body` on this thread and returns the report that a failing test would print.
///
/// # Panics
///
/// Panics if the run's settings are invalid.
#[must_use]
pub fn reported(body: impl FnOnce()) -> String {
    text::to_string(&checked(body), &Rendering::for_stderr())
}

fn checked(body: impl FnOnce()) -> Report {
    let scope = Scope::open("benchmark");
    scope.in_scope(body);
    scope.finish()
}
