//! One check, from its beginning to its outcome.

mod blind;
mod body;
mod company;
mod conclude;
mod entry;
mod family;
mod gate;
mod here;
mod isolate;
mod measure;
mod outcome;
mod poison;
mod program;
mod run;
#[cfg(feature = "main")]
mod runner;
mod scope;
mod sites;
mod sources;
mod summary;
mod token;
mod warmup;

pub(crate) use here::check_here;
pub use program::run_program;
pub use run::{run, run_test};
#[cfg(feature = "main")]
pub use runner::main;
pub use scope::{Entered, Instrument, Instrumented, OpenScope, Scope};
