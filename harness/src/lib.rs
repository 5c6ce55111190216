//! Fails a test that leaves GPU memory or GPU objects behind.

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
mod capture;
pub mod case;
mod check;
pub mod ledger;
pub mod observe;
pub mod options;
pub mod probe;
pub mod registry;
pub mod report;

pub use gpu_leak_check_macros::gpu_leak_check;
pub use ledger::Place;
