//! What runs as this library is loaded into a program: when that asks for a function of the driver.

#![expect(unsafe_code, reason = "the loader calls what stands in this section")]

use gpu_leak_check::__inject::{self, Settings};

use crate::{ending, watcher};

// SAFETY: the loader calls each entry of this section once, as a function without arguments; this one
// leaves word. A program that never initialises the driver does nothing more.
#[used]
#[unsafe(link_section = ".init_array")]
static FIRST: extern "C" fn() = first;

extern "C" fn first() {
    __inject::before_initialisation(attach);
}

/// Begins to judge. Called before the program initialises the driver, once in a process.
fn attach() {
    // Without the command's word this is another program's process.
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
