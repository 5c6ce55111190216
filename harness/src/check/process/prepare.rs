//! Prepares a process for its checks: begins the recording, intercepts the driver, accepts reports
//! from other sources, and runs the process's `#[warmup]` functions.

use std::{mem, thread};

use crate::api::{self, MissedBefore};
use crate::capture::{self, record};
use crate::check::body;
use crate::check::scopes::hooks;
use crate::check::scopes::open::{Token, is_inside_a_check, is_of_any_check};
use crate::device::start::BeforeFirstThread;
use crate::ledger::Layer;
use crate::sync::OnceLock;
use crate::workspace::Workspace;
use crate::{observe, probe, registry};

/// Begins to intercept the driver and to accept reports from other sources. Returns the calls that
/// have been missed so far.
///
/// # Panics
///
/// Panics if more than 4,096 allocators have names.
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
    if record::requested().is_some()
        && let [case, ..] = registry::cases()[..]
    {
        record_from_here(case.origin.manifest_dir, case.origin.file);
    }
}

/// Runs every warm-up the first time this is called, before the first baseline of the process.
/// Other checks wait until the warm-ups have ended. This does nothing for a check that a warm-up
/// itself runs, because that check would wait forever, and nothing for a nested check, because the
/// outer check has already called this function.
///
/// # Errors
///
/// Returns the message of a warm-up that panicked. Every check of the process then fails with it.
pub(crate) fn warm_up() -> Result<(), String> {
    if is_of_any_check() || is_inside_a_check() {
        return Ok(());
    }
    static ENDED: OnceLock<Result<(), String>> = OnceLock::new();
    ENDED.get_or_init(run_all).clone()
}

fn run_all() -> Result<(), String> {
    for warmup in registry::warmups() {
        let thread = thread::Builder::new().name(warmup.path.to_owned());
        let thread = thread.spawn(|| {
            // What exists before every check belongs to no scope. The thread keeps the token, because
            // destructors of its thread-locals may create something as well.
            mem::forget(Token::of_any_check());
            (warmup.run)();
        });
        let end = thread
            .map_err(|error| error.to_string())
            .and_then(|thread| {
                thread.join().map_err(|payload| {
                    let message = body::message(&*payload).unwrap_or("the panic has no message");
                    message.to_owned()
                })
            });
        end.map_err(|why| format!("the warm-up {} failed: {why}", warmup.path))?;
    }
    Ok(())
}
