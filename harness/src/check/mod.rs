//! One check, from its beginning to its outcome.

mod blind;
mod body;
mod company;
mod conclude;
mod entry;
mod expect;
mod gate;
mod here;
mod measure;
mod outcome;
mod over;
mod poison;
mod refused;
mod remarks;
mod rounds;
mod run;
mod sites;
mod sources;
mod summary;
mod tables;
mod uncovered;

pub(crate) use here::check_here;
pub use run::run;
