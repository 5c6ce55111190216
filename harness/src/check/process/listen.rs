//! Getting a process to listen: to the driver, to other sources, and to whoever wants a recording.

use crate::capture::{cupti, record};
use crate::check::scopes::hooks;
use crate::observe;
use crate::report::workspace::Workspace;

/// The driver's tracer, and ears for other sources.
pub(crate) fn listen(manifest_dir: Option<&str>, file: &str) {
    Workspace::init(manifest_dir, file);
    observe::listen();
    hooks::install();
    // Its absence is judged after the body, when it is known whether there was anything to see.
    let _ = cupti::start();
    record::identify();
}

/// Begins the recording, where one is asked for, before anything is watched: it has all events, or
/// none.
pub(crate) fn record_from_here(manifest_dir: Option<&str>, file: &str) {
    let workspace = Workspace::init(manifest_dir, file);
    record::begin(workspace.root());
}
