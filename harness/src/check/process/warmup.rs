//! Runs a process's `#[warmup]` functions before its first baseline.

use std::thread;

use gpu_leak_interpose as threads;

use crate::check::body;
use crate::check::scopes::open::is_inside_a_check;
use crate::registry;
use crate::sync::OnceLock;

/// The token of a warm-up's thread and of the threads that it starts. No scope has this number, so
/// the resources of these threads belong to no scope, and exist before every check.
const TOKEN: u64 = 1 << 32;

/// Runs every warm-up, but only the first time this is called. Other checks wait until the warm-ups
/// have ended. This does nothing for a check that a warm-up itself runs, because that check would
/// wait forever, and nothing for a nested check, because the outer check has already called it.
///
/// # Errors
///
/// Returns the message of a warm-up that panicked. Every check of the process then fails with it.
pub(crate) fn run_hooks() -> Result<(), String> {
    if threads::token() == TOKEN || is_inside_a_check() {
        return Ok(());
    }
    static ENDED: OnceLock<Result<(), String>> = OnceLock::new();
    ENDED.get_or_init(run_all).clone()
}

fn run_all() -> Result<(), String> {
    for hook in registry::warmups() {
        let thread = thread::Builder::new().name(hook.path.to_owned());
        let thread = thread.spawn(|| {
            threads::set_token(TOKEN);
            (hook.run)();
        });
        let end = thread
            .map_err(|error| error.to_string())
            .and_then(|thread| {
                thread.join().map_err(|payload| {
                    let said = body::message(&*payload).unwrap_or("the panic has no message");
                    said.to_owned()
                })
            });
        end.map_err(|why| format!("the warm-up {} failed: {why}", hook.path))?;
    }
    Ok(())
}
