//! Getting a process to listen: to the driver, to other sources, and to whoever wants a recording.

use crate::api::cuda::{self, UnheardBefore};
use crate::capture::record;
use crate::check::scopes::hooks;
use crate::ledger::Layer;
use crate::report::workspace::Workspace;
use crate::{observe, probe};

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
