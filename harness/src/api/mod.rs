//! The watched GPU APIs, each of which is a table of functions, and the code that their wrappers
//! share. Registers the tables when the program is loaded.

pub(crate) mod cuda;
mod interception;
mod pointer;
pub(crate) mod vulkan;
mod wrapper;

use std::sync::OnceLock;

pub(crate) use gpu_leak_interpose::Reach;
use gpu_leak_interpose::{Registration, register};

pub(crate) use interception::{
    Interception, Missed, MissedBefore, begin_check, cuda_interception, find_bindings_before_exit,
};
pub use wrapper::before_initialisation;
pub(crate) use wrapper::{stop, was_asked_for};

/// Which look-ups are intercepted. This is the same for all tables.
static REACH: OnceLock<Reach> = OnceLock::new();

/// Vulkan's loader looks up the same names in layers and drivers, and calls the functions that it
/// finds when its own functions are called. Each call must be counted only once: where the program
/// makes it.
static TABLES: [Registration; 4] = [
    Registration::new(cuda::FUNCTIONS, None).with_on_close(interception::on_close),
    Registration::new(cuda::LOOK_UPS, None),
    Registration::new(vulkan::FUNCTIONS, None).only_for_others(),
    Registration::new(vulkan::LOOK_UPS, None).only_for_others(),
];

/// Runs when the program is loaded, so that the program's first look-up is already intercepted. The
/// number in the section's name places it before initialisers without a number, regardless of the
/// order in which objects are linked.
#[cfg(target_os = "linux")]
#[used]
#[expect(
    unsafe_code,
    reason = "places a start-up function in a section of the program"
)]
// SAFETY: the section holds pointers to functions of this type, and the C library calls each of
// them once.
#[unsafe(link_section = ".init_array.50000")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    for table in &TABLES {
        let _ = REACH.set(register(table));
    }
    interception::replace_first_bindings();
}

/// Returns which look-ups of the process are intercepted.
pub(crate) fn reach() -> Reach {
    // No start-up function runs on other systems, where registering a table intercepts nothing.
    #[cfg(not(target_os = "linux"))]
    begin();
    REACH.get().copied().unwrap_or(Reach::Nothing)
}
