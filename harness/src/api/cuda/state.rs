//! Whether the driver's calls are heard in this process, and which of them are not.

#![cfg_attr(
    target_os = "linux",
    expect(
        unsafe_code,
        reason = "what runs as the program is loaded stands in a section of the program's own"
    )
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, OnceLock};

use super::functions::FUNCTIONS;
use super::heard;
use crate::device::{contexts, driver, exit};
use gpu_leak_interpose::{
    Reach, Registration, UnheardCalls, bindings_past_us, libraries_elsewhere, register,
    unheard_calls,
};

/// Whether calls are reported to the ledger. One load of it is all that a call costs where they are not.
static LISTENING: AtomicBool = AtomicBool::new(true);
/// Whether the program was heard to initialise the driver.
static INITIALISED: AtomicBool = AtomicBool::new(false);
/// Whether the program has come to functions of two drivers: one of them may be a tool's, which calls the
/// other's.
static TWO_DRIVERS: AtomicBool = AtomicBool::new(false);
/// What is to be done before that.
static BEFORE: OnceLock<fn()> = OnceLock::new();
/// What [`register`] answered.
static REACH: OnceLock<Reach> = OnceLock::new();

static REGISTRATION: Registration = Registration::new(FUNCTIONS, None);

/// Runs as the program is loaded, so that its first look-up is heard. The number puts it before those
/// without one, in whatever order the linker comes to them.
#[cfg(target_os = "linux")]
#[used]
// SAFETY: the section holds pointers to functions of this type, which the C library calls once each.
#[unsafe(link_section = ".init_array.50000")]
static BEGIN: extern "C" fn() = begin;

#[cfg(target_os = "linux")]
extern "C" fn begin() {
    let _ = REACH.set(register(&REGISTRATION));
    // A program that is linked to the driver has its functions already.
    let _ = bindings_past_us(usize::MAX);
}

/// How the program's use of the driver is heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hearing {
    /// Nobody has initialised the driver.
    Unused,
    /// Every call, so far.
    Whole,
    /// Calls of these functions were not: the driver has forms of them that the table does not know.
    WithoutFunctions(Vec<String>),
    /// Calls by these libraries may not have been: they were bound to the driver past us.
    WithoutLibraries(Vec<String>),
    /// The harness failed in a call.
    Broken,
    /// The driver was initialised unheard.
    None,
}

/// Whether calls are reported.
#[inline]
pub(super) fn is_listening() -> bool {
    LISTENING.load(Ordering::Relaxed)
}

/// A function of a second driver is called.
pub(super) fn has_two_drivers() {
    TWO_DRIVERS.store(true, Ordering::Relaxed);
}

/// Whether a call to one driver may come from another one, which was called itself.
pub(super) fn are_two_drivers() -> bool {
    TWO_DRIVERS.load(Ordering::Relaxed)
}

/// Reports no calls any more.
pub(crate) fn stop() {
    LISTENING.store(false, Ordering::Relaxed);
}

/// The program has initialised the driver.
pub(super) fn initialised() {
    INITIALISED.store(true, Ordering::Relaxed);
}

/// Has `first` run once, when the program is about to initialise the driver, on the thread that does.
pub fn before_initialisation(first: fn()) {
    let _ = BEFORE.set(first);
}

/// The program is about to initialise the driver, which every library in it may do anew.
pub(super) fn initialises() {
    static IS_DONE: AtomicBool = AtomicBool::new(false);

    if let Some(first) = BEFORE.get()
        && !IS_DONE.swap(true, Ordering::Relaxed)
    {
        first();
    }
}

/// A call is heard: what the first one needs.
pub(super) fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        exit::install();
        driver::find();
    });
}

/// What had gone unheard when a check began.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnheardBefore {
    /// None for a check that asks about bindings from the process's beginning on.
    bindings: Option<usize>,
    calls: Vec<UnheardCalls>,
}

/// A check begins.
pub(crate) fn begin_check() -> UnheardBefore {
    driver::find();
    UnheardBefore {
        bindings: Some(bindings_past_us(usize::MAX).now),
        calls: unheard_calls(),
    }
}

/// What of the process's look-ups is heard.
pub(crate) fn reach() -> Reach {
    REACH.get().copied().unwrap_or(Reach::Nothing)
}

/// How the program's use of the driver is heard in the check that ends, which began with `before`.
pub(crate) fn hearing(before: &UnheardBefore) -> Hearing {
    // As the process exits the loader has ended its libraries: asked for one, it would begin it anew.
    let may_ask_loader = !exit::exiting();
    if may_ask_loader {
        driver::find();
    }
    if heard::broken() {
        return Hearing::Broken;
    }
    if !INITIALISED.load(Ordering::Relaxed) {
        return match contexts::driver_in_use() {
            true => Hearing::None,
            false => Hearing::Unused,
        };
    }
    let calls = unheard_calls().into_iter();
    let since = calls.filter(|unheard| !before.calls.contains(unheard));
    let functions: Vec<_> = since.map(|unheard| unheard.name).collect();
    if !functions.is_empty() {
        return Hearing::WithoutFunctions(functions);
    }
    let past =
        may_ask_loader.then(|| bindings_past_us(before.bindings.unwrap_or(usize::MAX)).found);
    let past = past.into_iter().flatten().map(|binding| binding.library);
    // A driver that another part of the process has for itself.
    let elsewhere = libraries_elsewhere().into_iter();
    let elsewhere = elsewhere.filter(|library| library.contains("libcuda.so"));
    let mut libraries: Vec<_> = past.chain(elsewhere).collect();
    libraries.dedup();
    if !libraries.is_empty() {
        return Hearing::WithoutLibraries(libraries);
    }
    Hearing::Whole
}

/// Whether the driver's calls are heard, so that its pools can be read and waited for.
pub(crate) fn is_heard() -> bool {
    INITIALISED.load(Ordering::Relaxed) && !heard::broken()
}
