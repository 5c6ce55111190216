//! What a process warms up before its first baseline: the functions under `#[warmup]`.

use std::sync::{Mutex, PoisonError};
use std::thread;

use gpu_leak_interpose as threads;

use crate::check::conclude::Subject;
use crate::check::measure::body;
use crate::check::outcome;
use crate::registry;

/// Runs every hook, the first time it is called; others wait until that is done.
///
/// # Panics
///
/// When a hook does: the check at hand fails by it.
pub(crate) fn run_hooks(subject: &Subject<'_>) {
    static DONE: Mutex<bool> = Mutex::new(false);
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    if std::mem::replace(&mut *done, true) {
        return;
    }
    for hook in registry::warmups() {
        let thread = thread::Builder::new().name(hook.path.to_owned());
        // On a thread of no scope: whatever it makes is there before every check.
        let thread = thread.spawn(|| {
            threads::set_token(0);
            (hook.run)();
        });
        let end = thread
            .map_err(|error| error.to_string())
            .and_then(|thread| {
                thread.join().map_err(|payload| {
                    let said = body::message(&*payload).unwrap_or("it did not say why");
                    said.to_owned()
                })
            });
        if let Err(why) = end {
            drop(done);
            let failed = format!("the warm-up {} failed: {why}", hook.path);
            outcome::fail_at(subject, &failed, "");
        }
    }
}
