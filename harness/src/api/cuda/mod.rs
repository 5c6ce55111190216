//! Intercepts calls to the CUDA driver and turns them into events.
//!
//! Programs look up the driver's functions with `dlsym` and `cuGetProcAddress`, and get wrappers
//! for the functions that are watched ([`functions`], [`look_up`]). A wrapper makes the program's
//! call and reports it ([`intercept`]), in the terms of [`call`]. The driver is queried for facts
//! that the call does not contain.

mod array;
mod call;
mod contexts;
mod foreign;
mod functions;
mod graphs;
mod intercept;
mod listener;
mod look_up;
mod numbered;
mod state;
#[cfg(all(test, target_os = "linux"))]
mod tests;

pub(super) use functions::FUNCTIONS;
pub(super) use look_up::LOOK_UPS;
pub(super) use state::is_initialised;
pub(crate) use state::is_intercepted;
