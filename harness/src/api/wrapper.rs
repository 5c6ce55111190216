//! What the wrappers of all tables share: whether they report calls, and that a panic of the harness
//! reaches neither the program nor the driver.

use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether calls are reported to the ledger. If not, a call costs only one load of this flag.
static LISTENING: AtomicBool = AtomicBool::new(true);
/// Set if the harness panicked in a call: the ledger can no longer be trusted.
static BROKEN: AtomicBool = AtomicBool::new(false);
/// The function to call before the initialisation of a driver.
static BEFORE: OnceLock<fn()> = OnceLock::new();

/// Whether calls are reported.
#[inline]
pub(super) fn is_listening() -> bool {
    LISTENING.load(Ordering::Relaxed)
}

/// Stops reporting calls.
pub(crate) fn stop() {
    LISTENING.store(false, Ordering::Relaxed);
}

/// Whether the harness has panicked in a call.
pub(super) fn broken() -> bool {
    BROKEN.load(Ordering::Relaxed)
}

/// Runs `work` and returns whether it finished: a panic must not reach the driver or the caller.
pub(super) fn unbroken(work: impl FnOnce()) -> bool {
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    if outcome.is_err() {
        BROKEN.store(true, Ordering::Relaxed);
    }
    outcome.is_ok()
}

/// Runs `first` once, when the program is about to initialise a driver, on the initialising
/// thread.
pub fn before_initialisation(first: fn()) {
    let _ = BEFORE.set(first);
}

/// Records that the program is about to initialise a driver, which each library in it may do again.
pub(super) fn initialises() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);

    if let Some(first) = BEFORE.get()
        && !IS_DONE.swap(true, Ordering::Relaxed)
    {
        first();
    }
}
