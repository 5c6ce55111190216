//! The pure part of [gpu-leak-check](https://crates.io/crates/gpu-leak-check): the ledger of what a
//! GPU holds, as a function of a stream of events; the judgement, as a function of what a check
//! collected; and the report, as data.
//!
//! This crate calls no driver, opens no file, reads no clock and no environment variable, and has
//! no `unsafe`: everything that it needs from outside is passed in as a parameter. So the same code
//! judges a running program, a recording of another one, and the made-up input of a test, and all
//! of it runs under Miri.
//!
//! This crate is a part of gpu-leak-check: its interface may change with each release. Depend on
//! gpu-leak-check, which exposes what others may use.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "a test may have a clock")
)]

pub mod call_site;
pub mod escape;
pub mod judge;
pub mod ledger;
#[doc(hidden)]
pub mod recursion_guard;
pub mod report;
#[cfg(feature = "schemars")]
mod run_file_schema;
pub mod suppressions;
#[doc(hidden)]
pub mod sync;
pub mod units;
