//! Which calls to the drivers were intercepted during a check, and which were missed.

use std::sync::OnceLock;

use gpu_leak_interpose::{
    BindingPastUs, MissedCalls, WatchedFunction, bindings_past_us, libraries_elsewhere,
    missed_calls,
};

use super::{Reach, cuda, reach, vulkan, wrapper};
use crate::capture::history;
use crate::device::{contexts, driver};
use crate::exit;
use crate::recursion_guard::try_quiet;

/// How much of the program's use of the CUDA driver is intercepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Interception {
    /// The driver has not been initialised.
    Unused,
    /// All calls so far have been intercepted.
    Whole,
    /// All calls so far have been intercepted, except these.
    Partly(Missed),
    /// The harness failed in an intercepted call.
    Broken,
    /// No call is intercepted: even the driver's initialisation was missed.
    None,
}

/// Whether only NVIDIA's Vulkan driver uses CUDA, which it initialises for ray tracing. This holds
/// if no function of the CUDA tables has been looked up or bound in this process, because no other
/// code can then call one.
fn is_used_by_vulkan_alone() -> bool {
    let tables = [cuda::FUNCTIONS, cuda::LOOK_UPS].into_iter();
    vulkan::is_intercepted()
        && reach() == Reach::EveryLookup
        && !tables.flatten().any(WatchedFunction::is_looked_up)
        && bindings_past_us(0)
            .found
            .iter()
            .all(|binding| vulkan::is_function(&binding.symbol))
}

/// The calls that had already been missed when a check began.
#[derive(Clone, Debug, Default)]
pub(crate) struct MissedBefore {
    /// The number of bindings; `None` for the check of a whole program, which covers all bindings
    /// since this code was loaded.
    bindings: Option<usize>,
    calls: Vec<MissedCalls>,
}

/// The number of bindings when this code was loaded. These bindings were replaced immediately.
static AT_LOAD: OnceLock<usize> = OnceLock::new();
/// The bindings found since then, when the process began to exit.
static BEFORE_EXIT: OnceLock<Vec<BindingPastUs>> = OnceLock::new();

fn at_load() -> usize {
    *AT_LOAD.get_or_init(|| bindings_past_us(usize::MAX).now)
}

/// Replaces the bindings of a program that is linked to a driver, which are bound to the driver's
/// functions before this code runs.
pub(super) fn replace_first_bindings() {
    let _ = at_load();
}

/// Called before each `dlclose`, and after it if a library was unloaded. The bindings of a library
/// must be found before it is unloaded.
pub(super) extern "C" fn on_close(has_unloaded: bool) {
    if has_unloaded {
        history::unloaded();
    } else if !exit::exiting()
        && exit::may_report()
        && let Some(_quiet) = try_quiet()
    {
        let _ = bindings_past_us(usize::MAX);
    }
}

/// Prepares for a check that ends after the loader has finalised its libraries. The loader can then
/// no longer be queried, so the bindings are found before the exit.
pub(crate) fn find_bindings_before_exit() {
    exit::before_exit(|| {
        let _ = BEFORE_EXIT.set(bindings_past_us(at_load()).found);
    });
}

/// The calls and bindings that were not intercepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Missed {
    /// Functions that were called although they have no wrapper: variants that the table lacks, or
    /// more functions with the same name than it can tell apart.
    pub(crate) functions: Vec<String>,
    /// Libraries through which functions may have been called unseen: those whose bindings bypassed
    /// the harness, and the drivers in other namespaces of the loader.
    pub(crate) libraries: Vec<String>,
}

impl MissedBefore {
    /// Returns the calls missed since the check began: those to Vulkan, and those to CUDA.
    pub(crate) fn missed(&self) -> [Missed; 2] {
        let mut missed = [(); 2].map(|()| Missed::default());
        let api = |name: &str| usize::from(!vulkan::is_function(name));
        let calls = missed_calls().into_iter();
        for call in calls.filter(|call| !self.calls.contains(call)) {
            missed[api(&call.name)].functions.push(call.name);
        }
        let past = match exit::exiting() {
            true => BEFORE_EXIT.get().cloned().unwrap_or_default(),
            false => bindings_past_us(self.bindings.unwrap_or_else(at_load)).found,
        };
        for binding in past {
            missed[api(&binding.symbol)].libraries.push(binding.library);
        }
        missed.iter_mut().for_each(|it| it.libraries.dedup());
        missed
    }
}

pub(crate) fn begin_check() -> MissedBefore {
    driver::find();
    MissedBefore {
        bindings: Some(bindings_past_us(usize::MAX).now),
        calls: missed_calls(),
    }
}

/// Returns how much of the program's use of the CUDA driver was intercepted in the check that is
/// ending, given the calls that were `missed`.
pub(crate) fn cuda_interception(mut missed: Missed) -> Interception {
    // At exit, the loader has already finalised its libraries, and asking for a library would
    // initialise it again.
    let may_ask_loader = !exit::exiting();
    if may_ask_loader {
        driver::find();
    }
    if wrapper::broken() {
        return Interception::Broken;
    }
    if !cuda::is_initialised() {
        let is_used = contexts::driver_in_use();
        return match is_used && !(may_ask_loader && is_used_by_vulkan_alone()) {
            true => Interception::None,
            false => Interception::Unused,
        };
    }
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
