//! What the driver calls when it has loaded this library.

#![expect(unsafe_code, reason = "the driver finds the function by its C name")]

use std::ffi::c_int;
use std::panic;

use gpu_leak_check::__inject::{self, Settings};

use crate::{ending, watcher};

/// What the driver is answered: it has no use for anything else.
const DONE: c_int = 1;

/// Begins to listen. Called by the driver inside `cuInit`, once in a process: nothing here calls
/// CUDA.
// SAFETY: no other symbol of this name can be meant, for the driver looks it up in this library.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn InitializeInjection() -> c_int {
    // Err: unwinding into the driver would abort the program, which has done nothing wrong.
    let _ = panic::catch_unwind(attach);
    DONE
}

fn attach() {
    // Without the command's word this is another program's process, or a shell's.
    let Some(settings) = Settings::of_this_process() else {
        return;
    };
    // First: the driver's first calls follow at once. A Python that comes after them is no program's.
    let python = gpu_leak_python::install();
    if let Some(attached) = __inject::attach(&settings) {
        if let Err(unsupported) = python {
            attached.note(unsupported.to_string());
        }
        ending::install(attached);
        watcher::start(attached, &settings);
    }
}
