//! Makes a process listen: to the driver, to other sources, and for a recording.

use std::env;

use crate::api::cuda::{self, UnheardBefore};
use crate::capture::record;
use crate::case::Case;
use crate::check::scopes::hooks;
use crate::check::turn::company::one_test_at_a_time;
use crate::check::turn::libtest::Arguments;
use crate::config::{Mode, Policy};
use crate::device::start::BeforeFirstThread;
use crate::ledger::Layer;
use crate::report::workspace::Workspace;
use crate::{observe, probe, registry};

/// Starts intercepting the driver and taking reports from other sources. Returns what has been
/// missed before.
///
/// # Panics
///
/// If more allocators have a probe than can be distinguished.
pub(crate) fn listen(manifest_dir: Option<&str>, file: &str) -> UnheardBefore {
    Workspace::init(manifest_dir, file);
    // Before anything is reported, so that an allocator with a probe is always counted.
    for probe in probe::all() {
        let _ = Layer::allocator(probe.name());
    }
    observe::listen();
    hooks::install();
    let before = cuda::begin_check();
    record::identify();
    before
}

/// Begins the recording, if one is requested, before anything is watched, so that it has all
/// events.
pub(crate) fn record_from_here(manifest_dir: Option<&str>, file: &str) {
    let workspace = Workspace::init(manifest_dir, file);
    record::begin(workspace.root());
}

inventory::submit!(BeforeFirstThread(record_from_the_beginning));

/// Begins the recording before the program's first thread, and so before the first driver call, if
/// libtest runs several tests at once: an unchecked test may call the driver before the first
/// check.
fn record_from_the_beginning() {
    let cases = registry::cases();
    // The check of a whole program begins with the program, whose arguments are its own: they must
    // not be parsed as libtest's.
    if cases.is_empty() || cases.iter().any(|case| case.is_program()) || one_test_at_a_time() {
        return;
    }
    let arguments = env::args_os().skip(1);
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    let threads = env::var("RUST_TEST_THREADS").ok();
    let arguments = Arguments::of(arguments, threads);
    let mut cases = cases.into_iter();
    if let Some(case) = cases.find(|case| arguments.select(case) && is_checked_here(case)) {
        record_from_here(case.origin.manifest_dir, case.origin.file);
    }
}

/// Whether the check of this test begins in this process, as far as can be told in advance.
fn is_checked_here(case: &Case) -> bool {
    let policy = Policy::of(case.name(), case.origin.manifest_dir, &case.options);
    // Errors in the settings are reported by the check itself.
    policy.is_ok_and(|policy| policy.mode != Mode::Off && !policy.isolate)
        && case.options.unchecked_if.is_none()
}
