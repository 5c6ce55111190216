//! What is known about the driver of this process: whether it was initialised, and whether there
//! are two drivers.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::api::wrapper;
use crate::device::driver;
use crate::exit;

/// Whether the program's initialisation of the driver was intercepted.
static INITIALISED: AtomicBool = AtomicBool::new(false);
/// Whether the program calls functions of two drivers. One of them may belong to a tool and call
/// the other.
static TWO_DRIVERS: AtomicBool = AtomicBool::new(false);

/// Records that a function of a second driver was called.
pub(super) fn has_two_drivers() {
    TWO_DRIVERS.store(true, Ordering::Relaxed);
}

/// Whether a call to one driver may have been made by another driver, which the program called.
pub(super) fn are_two_drivers() -> bool {
    TWO_DRIVERS.load(Ordering::Relaxed)
}

/// Records that the program has initialised the driver.
pub(super) fn initialised() {
    INITIALISED.store(true, Ordering::Relaxed);
}

/// Prepares for a call by the program. Several threads may do so at the same time. None of them
/// waits for another. Otherwise, a thread that waits here for the loader's lock could block the
/// thread that holds it, which may be running a constructor that calls the driver.
pub(super) fn prepare() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);

    if !IS_DONE.load(Ordering::Acquire) {
        exit::install();
        driver::find();
        IS_DONE.store(true, Ordering::Release);
    }
}

/// Whether the program has initialised the driver in an intercepted call.
pub(crate) fn is_initialised() -> bool {
    INITIALISED.load(Ordering::Relaxed)
}

/// Whether the driver's calls are intercepted, so that its pools can be read and synchronised.
pub(crate) fn is_intercepted() -> bool {
    is_initialised() && !wrapper::broken()
}
