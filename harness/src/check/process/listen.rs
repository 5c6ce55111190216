//! Getting a process to listen: to the driver, to other sources, and to whoever wants a recording.

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

/// Ears for the driver and for other sources. Answers with what has gone unheard before.
///
/// # Panics
///
/// When more allocators have a probe than can be told apart.
pub(crate) fn listen(manifest_dir: Option<&str>, file: &str) -> UnheardBefore {
    Workspace::init(manifest_dir, file);
    // Before anybody reports: an allocator with a probe is always counted.
    for probe in probe::all() {
        let _ = Layer::allocator(probe.name());
    }
    observe::listen();
    hooks::install();
    let before = cuda::begin_check();
    record::identify();
    before
}

/// Begins the recording, where one is asked for, before anything is watched: it has all events, or
/// none.
pub(crate) fn record_from_here(manifest_dir: Option<&str>, file: &str) {
    let workspace = Workspace::init(manifest_dir, file);
    record::begin(workspace.root());
}

inventory::submit!(BeforeFirstThread(record_from_the_beginning));

/// A recording begins before the program's first thread, and so before the driver's first call, where
/// libtest runs several tests at once: one that is not checked may call it before the first check.
fn record_from_the_beginning() {
    let cases = registry::cases();
    // The check of a whole program begins with it, and its arguments are its own: whether it runs
    // one test at a time must not be asked.
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

/// Whether the check of this test begins in this process, as far as is known before.
fn is_checked_here(case: &Case) -> bool {
    let policy = Policy::of(case.name(), case.origin.manifest_dir, &case.options);
    // What is wrong with the settings is told by the check too.
    policy.is_ok_and(|policy| policy.mode != Mode::Off && !policy.isolate)
        && case.options.unchecked_if.is_none()
}
