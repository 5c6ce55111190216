//! One check, from its beginning to its outcome.

mod blind;
mod body;
mod company;
mod conclude;
mod entry;
mod gate;
mod here;
mod measure;
mod outcome;
mod poison;
mod run;
mod sites;
mod sources;
mod summary;
mod uncovered;

pub(crate) use here::check_here;
pub use run::run;
