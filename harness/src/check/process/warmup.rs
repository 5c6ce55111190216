//! What a process warms up before its first baseline: the functions under `#[warmup]`.

use std::sync::{Mutex, PoisonError};
use std::thread;

use gpu_leak_interpose as threads;

use crate::check::body;
use crate::check::outcome;
use crate::check::scopes::open::is_inside_a_check;
use crate::judge::Subject;
use crate::registry;

/// The token of the threads of a hook, and of those that they start: no scope has such a number, so
/// what they make belongs to none and is there before every check.
const TOKEN: u64 = 1 << 32;

/// Runs every hook, the first time it is called; other checks wait until that is done. Not those
/// that a hook runs itself, for which it waits in turn, nor one inside another check, which has
/// come this way before.
///
/// # Panics
///
/// When a hook does: the check at hand fails by it.
pub(crate) fn run_hooks(subject: &Subject) {
    if threads::token() == TOKEN || is_inside_a_check() {
        return;
    }
    static DONE: Mutex<bool> = Mutex::new(false);
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    if std::mem::replace(&mut *done, true) {
        return;
    }
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
