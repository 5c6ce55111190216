//! How the checks of one process are kept apart, and tests that run in a process of their own.

mod ahead;
mod isolate;
mod parallel;
mod scopes;
mod waiting;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use gpu_leak_check::Place;
use gpu_leak_check::observe::Source;
use gpu_leak_check::report::check_report::Report;
use gpu_leak_tests::checked::Checked;

static SOURCE: Source = Source::new("isolation", &[]);

/// Allocates from an allocator that has no device and that any thread can call.
fn take(bytes: u64) -> u64 {
    static ADDRESS: AtomicU64 = AtomicU64::new(1);
    let address = ADDRESS.fetch_add(1, Ordering::Relaxed);
    SOURCE.allocated(Place::named("isolation:0"), address, bytes);
    address
}

fn give_back(address: u64) {
    SOURCE.freed(address);
}

/// Returns the report of one test of a process.
#[track_caller]
fn report<'a>(checked: &'a Checked, test: &str) -> &'a Report {
    let mut reports = checked.reports.iter();
    let report = reports.find(|report| report.test.ends_with(test));
    report.unwrap_or_else(|| panic!("no report of {test}\n{}", checked.output()))
}

/// Runs a checked test as libtest does: on a thread with the name of the test.
fn as_libtest<'scope, 'env, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, 'env>,
    module: &str,
    name: &str,
    test: impl FnOnce() -> T + Send + 'scope,
) -> thread::ScopedJoinHandle<'scope, T> {
    let (_, module) = module.split_once("::").expect("a module of this crate");
    let thread = thread::Builder::new().name(format!("{module}::{name}"));
    // Adds a frame of the program. Without one, a second entry would look like a double
    // registration, because libtest enters a test only once.
    let call = move || {
        let ended = test();
        std::hint::black_box(ended)
    };
    thread.spawn_scoped(scope, call).expect("a thread")
}
