//! Locks of the ledger's parts. An event caused by the thread that holds such a lock would wait for
//! that lock forever, so the thread also holds the recursion guard.

use std::ops::{Deref, DerefMut};

use crate::recursion_guard::{RecursionGuard, quiet};
use crate::sync::{Mutex, MutexGuard, locked};

/// A locked mutex, and the recursion guard, which is released after the mutex is unlocked.
#[derive(Debug)]
pub(super) struct QuietLock<'a, T>(MutexGuard<'a, T>, RecursionGuard);

impl<T> Deref for QuietLock<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for QuietLock<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// Takes the guard and then locks `mutex`.
pub(super) fn lock_quietly<T>(mutex: &Mutex<T>) -> QuietLock<'_, T> {
    let quiet = quiet();
    QuietLock(locked(mutex), quiet)
}
