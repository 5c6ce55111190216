//! One check, from its beginning to its outcome.

mod aborted;
mod ahead;
mod attached;
mod blind;
mod block;
mod body;
mod company;
mod conclude;
mod entry;
mod expect;
mod family;
mod figures;
mod finding;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod gate;
mod here;
mod hooks;
mod isolate;
mod late;
mod libtest;
mod measure;
pub(crate) mod movements;
mod names;
mod open;
mod outcome;
mod over;
mod poison;
mod program;
mod recording;
mod referrers;
mod refused;
mod remarks;
mod replay;
mod rounds;
mod run;
#[cfg(feature = "main")]
mod runner;
mod scope;
mod sites;
mod sources;
mod stretch;
mod summary;
mod tables;
mod timeline;
mod token;
mod uncovered;
mod warmup;

pub use attached::{Attached, Cause, attach};
pub use block::{Check, assert_no_growth};
pub use figures::{
    Snapshot, gpu_available, max_memory_allocated, memory_allocated, memory_reserved,
    memory_summary, snapshot,
};
pub(crate) use here::check_here;
pub use program::run_program;
pub use replay::Replay;
pub(crate) use replay::replay;
pub use run::{run, run_test};
#[cfg(feature = "main")]
pub use runner::main;
pub use scope::{Entered, Instrument, Instrumented, OpenScope, Scope};
