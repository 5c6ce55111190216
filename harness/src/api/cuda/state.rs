//! Whether the driver's calls are intercepted in this process, and which of them are not.

#![cfg_attr(
    target_os = "linux",
    expect(
        unsafe_code,
        reason = "places a start-up function in a section of the program"
    )
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Once, OnceLock};

use super::functions::FUNCTIONS;
use crate::api::{vulkan, wrapper};
use crate::device::{contexts, driver, exit};
use gpu_leak_interpose::{
    Reach, Registration, UnheardCalls, WatchedFunction, bindings_past_us, libraries_elsewhere,
    register, unheard_calls,
};

/// Whether the program's initialisation of the driver was intercepted.
static INITIALISED: AtomicBool = AtomicBool::new(false);
/// Whether the program uses functions of two drivers. One of them may belong to a tool that calls
/// the other.
static TWO_DRIVERS: AtomicBool = AtomicBool::new(false);
/// The result of [`register`].
static REACH: OnceLock<Reach> = OnceLock::new();

static REGISTRATION: Registration = Registration::new(FUNCTIONS, None);

/// Runs when the program is loaded, so that its first look-up is intercepted. The number in the
/// section's name places it before initialisers without a number, in whatever order they are
/// linked.
#[cfg(target_os = "linux")]
#[used]
// SAFETY: the section holds pointers to functions of this type, which the C library calls once each.
#[unsafe(link_section = ".init_array.50000")]
static BEGIN: extern "C" fn() = begin;

#[cfg(target_os = "linux")]
extern "C" fn begin() {
    let _ = REACH.set(register(&REGISTRATION));
    vulkan::register();
    // A program that is linked against the driver has its functions already.
    let _ = bindings_past_us(usize::MAX);
}

/// How much of the program's use of the driver is intercepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Interception {
    /// The driver has not been initialised.
    Unused,
    /// All calls so far.
    Whole,
    /// All but these.
    Partly(Missed),
    /// The harness failed in a call.
    Broken,
    /// None: the driver's initialisation was not intercepted.
    None,
}

/// Whether the driver was initialised by NVIDIA's driver for Vulkan, which does so for ray tracing,
/// and no other code can call it: no function of the table was looked up in this process, and none
/// was bound.
fn is_used_by_vulkan_alone() -> bool {
    vulkan::is_intercepted()
        && reach() == Reach::EveryLookup
        && !FUNCTIONS.iter().any(WatchedFunction::is_looked_up)
        && bindings_past_us(0)
            .found
            .iter()
            .all(|binding| vulkan::is_named_so(&binding.symbol))
}

/// Records that a function of a second driver was called.
pub(super) fn has_two_drivers() {
    TWO_DRIVERS.store(true, Ordering::Relaxed);
}

/// Whether a call to one driver may come from another one, which the program called.
pub(super) fn are_two_drivers() -> bool {
    TWO_DRIVERS.load(Ordering::Relaxed)
}

/// Records that the program has initialised the driver.
pub(super) fn initialised() {
    INITIALISED.store(true, Ordering::Relaxed);
}

/// Makes the preparations that the first intercepted call needs.
pub(super) fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        exit::install();
        driver::find();
    });
}

/// The calls that had been missed when a check began.
#[derive(Clone, Debug, Default)]
pub(crate) struct MissedBefore {
    /// `None` for a check that asks about bindings since the process began.
    bindings: Option<usize>,
    calls: Vec<UnheardCalls>,
}

/// The calls and bindings that were not intercepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Missed {
    /// Functions that were called without a wrapper: variants that the table lacks, or more
    /// functions of the same name than it can distinguish.
    pub(crate) functions: Vec<String>,
    /// Libraries whose bindings to functions bypassed the harness, and which may have called these
    /// functions.
    pub(crate) libraries: Vec<String>,
}

impl MissedBefore {
    /// Returns the calls missed since the check began, of the functions whose names `is_meant`
    /// selects.
    pub(crate) fn missed(&self, is_meant: impl Fn(&str) -> bool) -> Missed {
        let calls = unheard_calls().into_iter();
        let new = calls.filter(|unheard| !self.calls.contains(unheard));
        let functions = new.map(|unheard| unheard.name);
        let since = self.bindings.unwrap_or(usize::MAX);
        // At exit the loader has already finalised its libraries.
        let past = (!exit::exiting()).then(|| bindings_past_us(since).found);
        let past = past.into_iter().flatten();
        let past = past.filter(|binding| is_meant(&binding.symbol));
        let mut libraries: Vec<_> = past.map(|binding| binding.library).collect();
        libraries.dedup();
        Missed {
            functions: functions.filter(|name| is_meant(name)).collect(),
            libraries,
        }
    }
}

/// Begins a check.
pub(crate) fn begin_check() -> MissedBefore {
    driver::find();
    MissedBefore {
        bindings: Some(bindings_past_us(usize::MAX).now),
        calls: unheard_calls(),
    }
}

/// Returns which look-ups of the process are intercepted.
pub(crate) fn reach() -> Reach {
    REACH.get().copied().unwrap_or(Reach::Nothing)
}

/// Returns how much of the program's use of the driver was intercepted in the check that ends;
/// `before` is from its beginning.
pub(crate) fn hearing(before: &MissedBefore) -> Interception {
    // At exit the loader has already finalised its libraries, and asking for one would initialise
    // it again.
    let may_ask_loader = !exit::exiting();
    if may_ask_loader {
        driver::find();
    }
    if wrapper::broken() {
        return Interception::Broken;
    }
    if !INITIALISED.load(Ordering::Relaxed) {
        let is_used = contexts::driver_in_use();
        return match is_used && !(may_ask_loader && is_used_by_vulkan_alone()) {
            true => Interception::None,
            false => Interception::Unused,
        };
    }
    let mut missed = before.missed(|name| !vulkan::is_named_so(name));
    // Another part of the process may have its own copy of the driver.
    let elsewhere = libraries_elsewhere().into_iter();
    let elsewhere = elsewhere.filter(|library| library.contains("libcuda.so"));
    missed.libraries.extend(elsewhere);
    missed.libraries.dedup();
    match missed == Missed::default() {
        true => Interception::Whole,
        false => Interception::Partly(missed),
    }
}

/// Whether the driver's calls are intercepted, so that its pools can be read and synchronised.
pub(crate) fn is_intercepted() -> bool {
    INITIALISED.load(Ordering::Relaxed) && !wrapper::broken()
}
