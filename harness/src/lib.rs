//! Fails a test that leaves GPU memory or GPU objects behind.

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod case;
mod check;
pub mod ledger;
pub mod options;
pub mod registry;
pub mod report;
