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
mod names;
mod outcome;
mod over;
mod poison;
mod recording;
mod replay;
mod rounds;
mod run;
mod sites;
mod sources;
mod summary;

pub(crate) use here::check_here;
pub(crate) use replay::replay;
pub use run::run;
