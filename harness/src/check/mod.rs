//! One check, from its beginning to its outcome.
//!
//! `session.rs` contains the whole flow, which is the same for a test, a block, an explicit scope,
//! a program and an attached program. `run.rs` contains a single run of a body. `CheckInput`
//! (`judge/input.rs` of the core) contains everything that the judgement uses.
//!
//! # Floors
//!
//! Each floor imports only from floors below it, which `tests/structure` verifies.
//!
//! ```text
//! 5 annotated block              entry points: what is annotated (a test, every test of a program, a program's
//!   manual_scope attached        `main`), a block of a test, an explicit scope, an unmodified program
//! 4 session isolate              the whole flow of a check; a test in its own process
//! 3 process outcome              what a process does before and after its checks: listening, warm-up, summary; pass,
//!                                warn or fail, and how that is reported;
//!   run                          one run of a body, between its baseline and its end;
//!   nested_decisions             what a nested check keeps from the checks around it;
//!   assertion settle_with        a test that failed through an assertion of this crate; what a body does at its end,
//!                                before anything is read;
//!   figures                      what is held now, for a test's own assertions
//! 2 body turn                    a body, on its own thread or on the current one; which check may run now (the gate),
//!                                and what else may be running (`concurrency`);
//!   readings                     how all figures are read;
//!   collect                      what a run has left: records with their owners, anomalies, what was freed;
//!   naming                       the names in a report, and the name of the check itself;
//!   holders                      who still holds what leaked;
//!   movements                    the allocations and frees in a recording
//! 1 scopes                       who owns a resource: the tree of scopes, the tokens of threads;
//!   blind                        what could not be seen, and which test broke a context;
//!   recording replay             what a check adds to the recording of its process; how a recording is judged again;
//!   several_calls                which functions make the same call at several places;
//!   threads                      the threads of this process, and which of them belong to a driver;
//!   without_holders              what replaces `holders` in builds without the search
//! ```

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
mod readings;
mod recording;
#[cfg(any(test, fuzzing, feature = "command"))]
pub(crate) mod replay;
mod run;
mod scopes;
mod session;
mod settle_with;
mod several_calls;
mod threads;
mod turn;

#[cfg(feature = "main")]
pub use annotated::main;
pub use annotated::{run, run_program, run_test};
pub use attached::{Attached, Cause, attach};
pub use block::{Check, assert_no_growth};
pub use figures::{
    Snapshot, gpu_available, max_memory_allocated, memory_allocated, memory_reserved,
    memory_summary, snapshot,
};
pub use manual_scope::{Entered, Instrument, Instrumented, OpenScope, Scope};
#[cfg(any(test, fuzzing, feature = "command"))]
pub use replay::{Replay, replay};
pub use settle_with::settle_with;
