//! The inside of [gpu-leak-check](https://crates.io/crates/gpu-leak-check) that calls nothing: the
//! table of what a GPU holds, as a function of a stream of events; the judgement, as a function of
//! what a check has seen; and what it finds, as data.
//!
//! It asks no driver, opens no file, reads no clock and no variable of the environment, and has no
//! `unsafe`: whatever it has to know of these comes in as a parameter. So the same code judges a
//! running program, a recording of another one, and a test's made-up world, and all of it runs
//! under Miri.
//!
//! This crate is a part of gpu-leak-check: its interface may change with each release. Depend on
//! gpu-leak-check, which shows what is meant for others.

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
pub mod quiet;
pub mod report;
#[cfg(feature = "schemars")]
mod schema;
pub mod suppressions;
#[doc(hidden)]
pub mod sync;
pub mod units;
