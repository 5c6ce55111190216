//! The pure part of [gpu-leak-check](https://crates.io/crates/gpu-leak-check): the ledger of the
//! resources that a GPU holds, as a function of a stream of events; the judgement, as a function of
//! the data that a check collected; and the report, as data.
//!
//! This crate calls no driver, opens no file, reads no clock and no environment variable, and
//! contains no `unsafe` code: everything that it needs from outside is passed in as a parameter. So
//! the same code judges a running program, a recording of an earlier run, and the invented input of
//! a test, and all of it runs under Miri.
//!
//! # Floors
//!
//! Each floor imports only from floors below it; `tests/structure` checks this.
//!
//! ```text
//! 5 lib judge                    the input of a session → the result of its check; the rules, and what each
//!                                device held; `suppressions`: what may stay, from the attribute and the
//!                                configuration file
//! 4 call_site                    trims a stack to its call site; libraries and caching allocators by name
//! 3 report                       what a check found, as data: findings, sites, what each device held, why a
//!                                check has no result; the whole report is `report/check_report.rs` of the harness;
//!   run_file_schema              names and kinds in the published schema of the run file
//! 2 ledger                       events and the names in them; apply/ applies events, a file for each kind;
//!                                table, the records in shards by key, with everything that is counted:
//!                                usage, timeline, meter; scopes, contexts, anomalies; resources with more
//!                                than one owner: holds, physical, graphs, and shared, which contains them
//! 1 units escape                 bytes and counts in text; names from outside, made safe to print;
//!   sync recursion_guard         locks and atomics, which tests/interleavings replaces; the recursion guard
//!                                of a thread that does the harness's own work
//! ```
//!
//! The crate's `clippy.toml` forbids access to the clock, the environment and files.
//!
//! # Stability
//!
//! This crate is part of gpu-leak-check: its interface may change with each release. Depend on
//! gpu-leak-check, which exposes the public interface.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests may use the clock")
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
#[doc(hidden)]
pub mod sync;
pub mod units;
