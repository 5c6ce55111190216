//! How many threads that inherited a token still live.
//!
//! A thread is counted from the call that starts it to the last of its destructors: those of its
//! thread-locals run before those of `pthread` keys, so a key's destructor is its last word.
#![expect(
    unsafe_code,
    reason = "a thread's end is told by a destructor of pthread"
)]

use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The tokens of live threads, with their numbers. Starting a thread costs far more than the lock,
/// and few tokens live at once.
static COUNTS: Mutex<Vec<(u64, usize)>> = Mutex::new(Vec::new());

fn counts() -> MutexGuard<'static, Vec<(u64, usize)>> {
    COUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many live threads inherited `token`.
pub(crate) fn count(token: u64) -> usize {
    let counts = counts();
    let found = counts.iter().find(|(known, _)| *known == token);
    found.map_or(0, |(_, count)| *count)
}

/// One thread more is about to inherit `token`.
pub(crate) fn add(token: u64) {
    let mut counts = counts();
    match counts.iter_mut().find(|(known, _)| *known == token) {
        Some((_, count)) => *count += 1,
        None => counts.push((token, 1)),
    }
}

/// One thread less: it ended, or could not be started.
pub(crate) fn remove(token: u64) {
    let mut counts = counts();
    if let Some(at) = counts.iter().position(|(known, _)| *known == token) {
        counts[at].1 -= 1;
        if counts[at].1 == 0 {
            counts.swap_remove(at);
        }
    }
}

/// Has this thread, which was counted under `token`, counted off when it ends.
pub(crate) fn remove_at_end(token: u64) {
    let value = ptr::without_provenance::<c_void>(token as usize);
    // SAFETY: the key was made by `pthread_key_create`; the value is a number, never dereferenced.
    let set = key().map(|key| unsafe { libc::pthread_setspecific(key, value) });
    if set != Some(0) {
        // Its end will not be told: better to wait for too few than for ever.
        remove(token);
    }
}

/// The key whose destructor counts threads off; none when the process has no key left.
fn key() -> Option<libc::pthread_key_t> {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` is written; `ended` neither unwinds nor uses what may be gone by then.
        let made = unsafe { libc::pthread_key_create(&raw mut key, Some(ended)) };
        (made == 0).then_some(key)
    })
}

extern "C" fn ended(token: *mut c_void) {
    remove(token.addr() as u64);
}
