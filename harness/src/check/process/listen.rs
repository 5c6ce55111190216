//! Prepares a process to be checked: begins to intercept the driver, to accept reports from other
//! sources, and to record.

use crate::api::{self, MissedBefore};
use crate::capture::{self, record};
use crate::check::scopes::hooks;
use crate::device::start::BeforeFirstThread;
use crate::ledger::Layer;
use crate::workspace::Workspace;
use crate::{observe, probe, registry};

/// Begins to intercept the driver and to accept reports from other sources. Returns the calls that
/// had been missed before.
///
/// # Panics
///
/// Panics if more allocators have a probe than can be told apart.
pub(crate) fn listen(manifest_dir: Option<&str>, file: &str) -> MissedBefore {
    Workspace::init(manifest_dir, file);
    // This happens before anything is reported, so that an allocator with a probe is always
    // counted.
    for probe in probe::all() {
        let _ = Layer::allocator(probe.name());
    }
    gpu_leak_interpose::mark_threads(|| capture::exact_stack().0.into());
    observe::listen();
    hooks::install();
    let before = api::begin_check();
    record::identify();
    before
}

/// Begins the recording, if one is requested. This happens before anything is watched, so that the
/// recording contains all events.
pub(crate) fn record_from_here(manifest_dir: Option<&str>, file: &str) {
    let workspace = Workspace::init(manifest_dir, file);
    record::begin(workspace.root());
}

inventory::submit!(BeforeFirstThread(record_from_the_beginning));

/// Begins the recording before the program starts its first thread, and therefore before the first
/// driver call, because an unchecked test may call the driver before the first check begins.
fn record_from_the_beginning() {
    if record::asked().is_some()
        && let [case, ..] = registry::cases()[..]
    {
        record_from_here(case.origin.manifest_dir, case.origin.file);
    }
}
