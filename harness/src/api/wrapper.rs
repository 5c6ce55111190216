//! Code that the wrappers of all tables share. It decides whether and how calls are reported, and
//! keeps a panic in the harness from reaching the program or the driver.

use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use gpu_leak_interpose::uncancelled;

use crate::exit;
use crate::recursion_guard::{quiet, try_quiet};

/// Whether calls are reported to the ledger. If they are not, reading this flag is all that a call
/// costs.
static LISTENING: AtomicBool = AtomicBool::new(true);
/// Set when the harness has panicked in a call. The ledger can then no longer be trusted.
static BROKEN: AtomicBool = AtomicBool::new(false);
/// Whether the program has tried to initialise a driver.
static WAS_ASKED_FOR: AtomicBool = AtomicBool::new(false);
/// The function to call before a driver is initialised.
static BEFORE: OnceLock<fn()> = OnceLock::new();

#[inline]
pub(super) fn is_listening() -> bool {
    LISTENING.load(Ordering::Relaxed)
}

/// Stops reporting calls.
pub(crate) fn stop() {
    LISTENING.store(false, Ordering::Relaxed);
}

pub(super) fn broken() -> bool {
    BROKEN.load(Ordering::Relaxed)
}

/// Whether the program has tried to initialise a driver, successfully or not.
pub(crate) fn was_asked_for() -> bool {
    WAS_ASKED_FOR.load(Ordering::Relaxed)
}

/// Runs `work` and returns whether it finished. A panic in it is caught, because it must not reach
/// the driver or the caller.
///
/// A cancellation of the thread must not begin in `work` either. The parts of `work` that read or
/// write files run in [`uncancelled`]. Running all of `work` in this way would double the cost of a
/// call. Cancellation points inside the driver still take effect.
#[inline]
fn unbroken(work: impl FnOnce()) -> bool {
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    if outcome.is_err() {
        BROKEN.store(true, Ordering::Relaxed);
    }
    outcome.is_ok()
}

/// Makes the program's call by calling `forward`, and reports it: `began` reports that the call is
/// about to be made, and `ended` reports its result. The data that the end needs from the beginning
/// is a `Begun` in this stack frame. It is filled in place, because moving it would cost more than
/// filling it.
///
/// `is_one_call` says whether calls that a driver makes in the meantime are part of the program's
/// call.
// This is inlined even in a debug build, where otherwise every stack would have one more frame.
#[inline(always)]
pub(super) fn reported<Begun: Default, Answer: Copy>(
    forward: &mut dyn FnMut() -> Answer,
    is_one_call: impl FnOnce() -> bool,
    began: impl FnOnce(&mut Begun),
    ended: impl FnOnce(&mut Begun, Answer),
) -> Answer {
    // In a forked child, threads that do not exist there may hold the ledger's locks.
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
        // The locks in `begun` are released while this thread still holds the recursion guard.
        drop(begun);
    }
    answer
}

/// Runs `first` once, on the thread that is about to initialise a driver for the first time, before
/// the initialisation.
pub fn before_initialisation(first: fn()) {
    let _ = BEFORE.set(first);
}

/// Records that the program is about to initialise a driver. This may happen several times, because
/// each library in the program may initialise a driver.
pub(super) fn initialises() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);

    WAS_ASKED_FOR.store(true, Ordering::Relaxed);
    if let Some(first) = BEFORE.get()
        && !IS_DONE.swap(true, Ordering::Relaxed)
    {
        uncancelled(first);
    }
}

/// Returns the name of a function as a C string.
macro_rules! name {
    ($name:ident) => {
        match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("the name of a function contains a NUL byte"),
        }
    };
}
pub(super) use name;

/// Expands to a function's rows in a table, one for each target. Each has the function's name, and
/// the wrapper and the slot of its target.
macro_rules! watched {
    ($name:ident, [$($target:literal)*]) => {
        [$(WatchedFunction::new(
            $crate::api::wrapper::name!($name),
            wrappers::$name::<$target> as *const (),
            &SLOTS[$target][FunctionId::$name as usize],
        )),*]
    };
}

/// Expands to the rows for a driver's function that looks up other functions, one for each target.
macro_rules! look_up {
    ($name:literal, $wrapper:ident, $slots:ident, [$($target:literal)*]) => {
        [$(WatchedFunction::new($name, $wrapper::<$target> as *const (), &$slots[$target])),*]
    };
}

/// Defines the slots of a table, by target and function, and `FUNCTIONS`, the rows of the table.
/// There can be as many different functions with the same name as there are targets, and each has
/// its own wrapper.
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

/// Returns the effect of a row for a call whose parameters are all zero.
#[cfg(test)]
macro_rules! with_zeros {
    ($call:ident, ($($parameter:ident: $type:ty),*), $does:expr) => {{
        // SAFETY: every parameter is a number or a pointer that may be null.
        #[allow(unused_variables, clippy::allow_attributes, reason = "some rows do not use every parameter")]
        let ($($parameter,)*) = unsafe { ($(mem::zeroed::<$type>(),)*) };
        $call::from($does)
    }};
}
#[cfg(test)]
pub(super) use with_zeros;
