//! What threads do at once, and what must hold whatever the order of their steps.

#![expect(
    clippy::missing_panics_doc,
    reason = "a scenario panics when something does not hold"
)]

pub mod exclusion;
pub mod gate;
pub mod records;
mod world;
