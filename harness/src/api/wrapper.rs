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
#[inline]
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

/// The name of a function as the C library has it.
macro_rules! name {
    ($name:ident) => {
        match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("a name has no zero byte inside"),
        }
    };
}
pub(super) use name;

/// The entries of a table for a function: its name, and the wrapper and the slot of each target.
macro_rules! watched {
    ($id:ident::$name:ident, [$($target:literal)*]) => {
        [$(WatchedFunction::new(
            $crate::api::wrapper::name!($name),
            wrappers::$name::<$target> as *const (),
            &SLOTS[$target][$id::$name as usize],
        )),*]
    };
}
pub(super) use watched;

/// The same for a function of the driver that looks up others.
macro_rules! look_up {
    ($name:literal, $wrapper:ident, $slots:ident, [$($target:literal)*]) => {
        [$(WatchedFunction::new(
            $name,
            look_up::$wrapper::<$target> as *const (),
            &look_up::$slots[$target],
        )),*]
    };
}
pub(super) use look_up;

/// What a row says about a call whose parameters are all zero.
#[cfg(test)]
macro_rules! with_zeros {
    ($call:ident, ($($parameter:ident: $type:ty),*), $does:expr) => {{
        // SAFETY: every parameter is a number, or a pointer that may be null.
        #[allow(unused_variables, clippy::allow_attributes, reason = "not all are looked at")]
        let ($($parameter,)*) = unsafe { ($(mem::zeroed::<$type>(),)*) };
        $call::from($does)
    }};
}
#[cfg(test)]
pub(super) use with_zeros;
