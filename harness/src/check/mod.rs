//! One check, from its beginning to its outcome.

#[cfg(feature = "holders")]
mod allocators_own;
mod annotated;
mod assertion;
mod attached;
pub(crate) mod blind;
mod block;
mod body;
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
pub(crate) mod outcome;
mod process;
mod program;
mod recording;
#[cfg(any(test, fuzzing, feature = "command"))]
pub(crate) mod replay;
mod run;
#[cfg(feature = "main")]
mod runner;
mod scopes;
mod session;
mod settle_with;
mod settled;
mod sources;
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
pub use replay::Replay;
#[cfg(any(test, fuzzing, feature = "command"))]
pub(crate) use replay::replay;
#[cfg(feature = "main")]
pub use runner::main;
pub use settle_with::settle_with;
