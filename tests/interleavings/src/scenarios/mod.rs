//! Scenarios: what several threads do at the same time, and what must hold in every interleaving.

#![expect(
    clippy::missing_panics_doc,
    reason = "a scenario panics when something does not hold"
)]

pub mod exclusion;
pub mod gate;
pub mod records;
mod world;
