//! One check, from its beginning to its outcome.
//!
//! `session.rs` contains the whole flow, which is the same for a test, a block, a manual scope, a
//! program and an attached program. `run.rs` contains a single run of a body. `CheckInput`
//! (`judge/input.rs` of the core) contains everything that the judgement uses.
//!
//! # Floors
//!
//! Each floor imports only from floors below it, which `tests/structure.rs` verifies.
//!
//! ```text
//! runner program                 entry points: every test of a program (`main!()`), a program as one check,
//! block manual_scope             a block of a test, a closure on this thread, a manual scope,
//! annotated attached             a test with the attribute, an unmodified program
//! replay movements               judges a recording again with the same code; its allocations and frees
//! figures                        what is held now, for a test's own assertions
//! isolate                        a test in its own process
//! session process                the whole flow; what a process does before and after its checks: listening, warm-up,
//!                                summary
//! outcome                        pass, warn or fail, and how that is reported
//! assertion nested_decisions     a test that failed through an assertion of this crate; what a nested check
//!                                keeps from the checks around it
//! holders without_holders        who still holds what leaked; what stands in its place in builds without the search
//! allocators_own search_time     which statics are the program's allocators' own, and hold nothing for it; how long
//!                                a process searches
//! run                            one run of a body, between its baseline and its end
//! collect                        what a run has left: records with their owners, anomalies, what was freed
//! naming subject                 the names of things in a report; what a check is called
//! readings                       reads every figure
//! body settle_with               a body, on its own thread or on the current one; what it does at its end, before
//!                                anything is read
//! turn                           which check may run now (the gate), and what else may be running
//!                                (`concurrency`)
//! scopes                         who owns a resource: the tree of scopes, the tokens of threads
//! recording                      what a check adds to the recording of its process
//! blind                          what could not be seen; which test broke a context
//! ```

#[cfg(feature = "holders")]
mod allocators_own;
mod annotated;
mod assertion;
mod attached;
pub(crate) mod blind;
mod block;
mod body;
mod collect;
mod figures;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
#[cfg_attr(not(feature = "holders"), path = "without_holders.rs")]
mod holders;
mod isolate;
mod manual_scope;
#[cfg(any(test, fuzzing, feature = "command"))]
pub(crate) mod movements;
mod naming;
mod nested_decisions;
pub(crate) mod outcome;
mod process;
mod program;
mod readings;
mod recording;
#[cfg(any(test, fuzzing, feature = "command"))]
pub(crate) mod replay;
mod run;
#[cfg(feature = "main")]
mod runner;
mod scopes;
#[cfg(feature = "holders")]
mod search_time;
mod session;
mod settle_with;

mod subject;
mod turn;

pub use annotated::{run, run_test};
pub use attached::{Attached, Cause, attach};
pub use block::{Check, assert_no_growth};
pub use figures::{
    Snapshot, gpu_available, max_memory_allocated, memory_allocated, memory_reserved,
    memory_summary, snapshot,
};
pub use manual_scope::{Entered, Instrument, Instrumented, OpenScope, Scope};
pub use program::run_program;
#[cfg(any(test, fuzzing, feature = "command"))]
pub use replay::{Replay, replay};
#[cfg(feature = "main")]
pub use runner::main;
pub use settle_with::settle_with;
