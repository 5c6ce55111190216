//! The CUDA driver's own calls as a source of events, through CUPTI's
//! [Callback API](https://docs.nvidia.com/cupti/api/group__CUPTI__CALLBACK__API.html).
//!
//! CUPTI is found ([`loader`]) and opened ([`library`]) at run time, subscribed to once
//! ([`subscriber`]), and
//! calls back ([`callback`]) for each watched call ([`watch`]), whose parameters ([`params`]) are
//! turned into events ([`decode`]). A subscription lasts as long as the process: taking it down
//! while other threads are inside it is not safe, and at exit nothing of CUPTI may be called.

mod array;
mod call;
mod callback;
mod contexts;
mod decode;
mod ffi;
mod field;
mod library;
mod loader;
mod numbered;
mod params;
mod subscriber;
mod unavailable;
mod version;
mod watch;

#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::sync::OnceLock;

#[cfg(all(any(test, fuzzing), target_pointer_width = "64"))]
pub(crate) use callback::fuzz;
use subscriber::Moment;
pub(crate) use subscriber::{Tracer, bad_override, candidates, watched};
pub(crate) use unavailable::Unavailable;
pub(crate) use version::CudaVersion;

static TRACER: OnceLock<Result<Tracer, Unavailable>> = OnceLock::new();

/// Starts watching, once in a process: about 12 ms the first time, nothing afterwards.
///
/// # Errors
///
/// Why the driver's calls cannot be watched; the same answer each time.
pub(crate) fn start() -> Result<&'static Tracer, &'static Unavailable> {
    TRACER
        .get_or_init(|| subscriber::start(Moment::Any))
        .as_ref()
}

/// As [`start`], called by the driver while it initialises itself: nothing of it may be called yet.
///
/// # Errors
///
/// Why the driver's calls cannot be watched; the same answer each time.
pub(crate) fn start_inside_initialisation() -> Result<&'static Tracer, &'static Unavailable> {
    TRACER
        .get_or_init(|| subscriber::start(Moment::InsideInitialisation))
        .as_ref()
}

/// The tracer, if it was started: at exit it is too late to.
pub(crate) fn started() -> Option<&'static Tracer> {
    TRACER.get()?.as_ref().ok()
}
