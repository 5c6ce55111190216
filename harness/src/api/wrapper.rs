//! Code that the wrappers of all tables share. It decides whether and how calls are reported, and
//! keeps a panic of the harness from reaching the program or the driver.

use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::device::exit;
use crate::recursion_guard::{quiet, try_quiet};

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
fn unbroken(work: impl FnOnce()) -> bool {
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    if outcome.is_err() {
        BROKEN.store(true, Ordering::Relaxed);
    }
    outcome.is_ok()
}

/// Makes the program's call with `forward` and reports it: `began` reports that it is about to be
/// made, and `ended` reports its result. The data that the end needs from the beginning is a
/// `Begun` in this stack frame, filled in place, because moving it would cost more than filling it.
///
/// `is_one_call` says whether calls that a driver makes meanwhile are part of the program's call.
// Inlined also in a debug build, where every stack would otherwise have one more frame.
#[inline(always)]
pub(super) fn reported<Begun: Default, Answer: Copy>(
    forward: &mut dyn FnMut() -> Answer,
    is_one_call: impl FnOnce() -> bool,
    began: impl FnOnce(&mut Begun),
    ended: impl FnOnce(&mut Begun, Answer),
) -> Answer {
    // In a forked child the ledger's locks may be held by threads that do not exist there.
    if exit::forked() || broken() {
        return forward();
    }
    let Some(at_work) = try_quiet() else {
        return forward();
    };
    let mut begun = Begun::default();
    let is_reported = unbroken(|| began(&mut begun));
    let at_work = is_one_call().then_some(at_work);
    let answer = forward();
    drop(at_work);
    if is_reported {
        let _at_work = quiet();
        unbroken(|| ended(&mut begun, answer));
        // The locks in `begun` are released while this thread still holds the guard.
        drop(begun);
    }
    answer
}

/// Runs `first` once, when the program is about to initialise a driver, on the initialising
/// thread.
pub fn before_initialisation(first: fn()) {
    let _ = BEFORE.set(first);
}

/// Records that the program is about to initialise a driver. Each library in the program may do so
/// again.
pub(super) fn initialises() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);

    if let Some(first) = BEFORE.get()
        && !IS_DONE.swap(true, Ordering::Relaxed)
    {
        first();
    }
}

/// The name of a function as a C string.
macro_rules! name {
    ($name:ident) => {
        match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("names contain no NUL byte"),
        }
    };
}
pub(super) use name;

/// The entries of a table for a function: its name, and the wrapper and the slot of each target.
macro_rules! watched {
    ($name:ident, [$($target:literal)*]) => {
        [$(WatchedFunction::new(
            $crate::api::wrapper::name!($name),
            wrappers::$name::<$target> as *const (),
            &SLOTS[$target][FunctionId::$name as usize],
        )),*]
    };
}

/// The entries for a function of the driver that looks up others: the wrapper and the slot of each
/// target.
macro_rules! look_up {
    ($name:literal, $wrapper:ident, $slots:ident, [$($target:literal)*]) => {
        [$(WatchedFunction::new($name, $wrapper::<$target> as *const (), &$slots[$target])),*]
    };
}

/// Defines the slots of a table, by target and function, and `FUNCTIONS`: its entries for look-ups.
/// As many functions with the same name can be distinguished as there are targets; each has its own
/// wrapper.
macro_rules! table {
    ($targets:ident = $numbers:tt; $($name:ident)*) => {
        #[expect(non_camel_case_types, reason = "the names match the driver's functions")]
        #[derive(Clone, Copy)]
        enum FunctionId { $($name,)* }

        const COUNT: usize = [$(FunctionId::$name),*].len();

        static SLOTS: [[Slot; COUNT]; $targets] =
            [const { [const { Slot::empty() }; COUNT] }; $targets];

        static BY_TARGET: [[WatchedFunction; $targets]; COUNT] =
            [$($crate::api::wrapper::watched!($name, $numbers)),*];

        pub(in crate::api) static FUNCTIONS: &[WatchedFunction] = BY_TARGET.as_flattened();
    };
}
pub(super) use {look_up, table, watched};

/// The effect that a row describes for a call whose parameters are all zero.
#[cfg(test)]
macro_rules! with_zeros {
    ($call:ident, ($($parameter:ident: $type:ty),*), $does:expr) => {{
        // SAFETY: every parameter is a number, or a pointer that may be null.
        #[allow(unused_variables, clippy::allow_attributes, reason = "some rows do not use every parameter")]
        let ($($parameter,)*) = unsafe { ($(mem::zeroed::<$type>(),)*) };
        $call::from($does)
    }};
}
#[cfg(test)]
pub(super) use with_zeros;
