//! Determines which calls a check could not see, and which test broke a context. A check that could
//! not see everything is never clean.

use crate::api::{self, Interception, Missed, MissedBefore, Reach, vulkan};
use crate::device::contexts;
use crate::judge::Untraced;
use crate::report::check_report::{Code, Reason};
use crate::sync::{Mutex, locked};
use crate::units::listed;
use crate::{exit, loader};

/// Whether this machine has no working driver.
pub(crate) fn no_gpu() -> bool {
    contexts::missing().is_some()
}

/// Returns why the check that just ran could not see everything. `before` is from the beginning of
/// the check, and `saw_events` says whether any source reported anything, or the figures of a probe
/// changed, while the check ran.
pub(crate) fn untraced(saw_events: bool, before: &MissedBefore) -> Option<Untraced> {
    let untraced = |lost, reason, driver_in_use| {
        Some(Untraced {
            lost,
            reason,
            driver_in_use,
        })
    };
    if exit::forked() {
        return untraced(false, in_forked_child(), true);
    }
    let [vulkan, cuda] = before.missed();
    let vulkan = partly_intercepted(
        &vulkan,
        "more drivers and layers implement than this release can tell apart",
        "run the check with fewer Vulkan devices or layers, or report this to the authors of gpu-leak-check",
    );
    match api::cuda_interception(cuda) {
        Interception::Whole | Interception::Unused if vulkan.is_some() => {
            untraced(true, vulkan?, true)
        }
        Interception::Whole => None,
        // The program uses another API, and calls to that API are intercepted.
        Interception::Unused if saw_events || vulkan::is_intercepted() => None,
        // At exit, the driver must not be called to find out whether there is a device.
        Interception::Unused if exit::exiting() && api::was_asked_for() => {
            untraced(false, not_initialised(), false)
        }
        Interception::Unused => untraced(false, other_api().or_else(missing)?, false),
        Interception::None => untraced(false, unheard(), true),
        Interception::Broken => untraced(true, broken(), true),
        Interception::Partly(missed) => {
            let reason = partly_intercepted(
                &missed,
                "this release does not intercept",
                "update gpu-leak-check or, if this is the newest release, report the names of \
                 these functions to its authors",
            );
            untraced(true, reason?, true)
        }
    }
}

/// Returns why there is nothing to intercept; `None` if there is a device.
pub(crate) fn missing() -> Option<Reason> {
    let why = contexts::missing()?;
    Some(Reason::new(
        Code::NoGpu,
        format!("no usable CUDA device was found ({why})"),
        "run on a machine with an NVIDIA driver and a visible device; GPU_LEAK_CHECK_WITHOUT_GPU=skip \
         skips checked tests elsewhere",
    ))
}

/// Returns why there was nothing to intercept in a program that could not initialise any driver.
fn not_initialised() -> Reason {
    Reason::new(
        Code::NoGpu,
        "the program could not initialise a driver: its calls to cuInit or vkCreateInstance failed",
        "run it on a machine with a driver and a device that are visible to the program",
    )
}

/// Returns why nothing was intercepted in a program that uses another graphics API; `None` if it
/// uses none.
fn other_api() -> Option<Reason> {
    const LIBRARIES: [&str; 4] = ["libEGL.so", "libGL.so", "libGLESv2.so", "libOpenGL.so"];
    let modules = loader::modules();
    let names = modules.iter().filter_map(|file| file.file_name()?.to_str());
    let library = names.into_iter().find(|name| {
        let is_named_so = |library: &&str| name.starts_with(library);
        LIBRARIES.iter().any(is_named_so)
    })?;
    Some(Reason::new(
        Code::Backend,
        format!(
            "no call to CUDA or Vulkan was intercepted, and {library} is loaded: OpenGL is not watched"
        ),
        "run the test on Vulkan; for wgpu, use `Backends::VULKAN` or WGPU_BACKEND=vulkan",
    ))
}

/// Returns why the driver's calls are not intercepted at all.
pub(crate) fn unheard() -> Reason {
    let (what, remedy) = match api::reach() {
        Reach::Nothing => (
            "this build cannot intercept calls to the CUDA driver: on musl, with a static C \
             library, and under a sanitizer or Miri, the harness does not replace the dynamic \
             linker's functions",
            "build the tests without a sanitizer, for a target that links glibc dynamically",
        ),
        Reach::EveryLookup | Reach::ReboundOnly => (
            "the CUDA driver was initialised before this harness was loaded, or by calls that it \
             did not intercept",
            "run the program under `cargo gpu-leak exec`, which watches it from the start",
        ),
    };
    Reason::new(Code::Unheard, what, remedy)
}

/// Returns why a check in a forked child saw nothing.
fn in_forked_child() -> Reason {
    Reason::new(
        Code::Unheard,
        "this process is a forked child of the test program, and calls in a forked child are not \
         intercepted",
        "run the check in the parent, or start a separate program instead of forking this one",
    )
}

/// Returns why no call is reported any more.
fn broken() -> Reason {
    Reason::new(
        Code::HarnessFailed,
        "the harness panicked while handling a driver call",
        "report the panic message in the program's output to the authors of gpu-leak-check; \
         `cargo test -- --show-output` shows the output of tests that pass",
    )
}

/// Returns why some calls were not intercepted; `None` if all were. `which` completes the sentence
/// that lists the functions that were missed, and `remedy` says what to do about it.
fn partly_intercepted(missed: &Missed, which: &str, remedy: &str) -> Option<Reason> {
    if !missed.functions.is_empty() {
        let what = format!(
            "the program called {}, which {which}: allocations and frees by such calls were not \
             seen, so leaks may be missing, and memory that looks live may have been freed",
            listed(&missed.functions)
        );
        return Some(Reason::new(Code::UnheardFunction, what, remedy));
    }
    let names = missed.libraries.join(", ");
    (!names.is_empty()).then(|| {
        Reason::new(
            Code::UnheardLibrary,
            format!(
                "calls to a GPU driver through these libraries may have bypassed the harness: {names}"
            ),
            "load these libraries before the check begins, and without RTLD_DEEPBIND or dlmopen",
        )
    })
}

/// Returns what to report if the run's settings switch checks off.
pub(crate) fn switched_off() -> Untraced {
    Untraced {
        lost: false,
        reason: Reason::new(
            Code::Off,
            "checks are switched off",
            "remove GPU_LEAK_CHECK=off, or `mode = \"off\"` in the configuration file",
        ),
        driver_in_use: false,
    }
}

/// The test that broke a context. Every later call in such a context fails.
static CULPRIT: Mutex<Option<String>> = Mutex::new(None);

/// Records that a context broke inside `test` or, if `test` did not run alone, inside a check that
/// ran at the same time. Only the first test is recorded, because later tests merely encounter the
/// broken context.
pub(crate) fn blame(test: &str, met_a_check: bool) {
    let mut culprit = locked(&CULPRIT);
    culprit.get_or_insert_with(|| match met_a_check {
        true => format!("{test} or a check that ran at the same time"),
        false => test.to_owned(),
    });
}

/// Returns the test that broke a context.
pub(crate) fn culprit() -> Option<String> {
    locked(&CULPRIT).clone()
}
