//! The options of a check, and the syntax of sizes and durations.
//!
//! The attribute of gpu-leak-check parses the options at compile time, the library parses them when
//! it reads the configuration file, and `Check` has a method for each of them. All three are
//! generated from [one table](options), so that each name means the same everywhere.

mod conflicts;
mod nearest;
mod rules;
mod table;
pub mod units;

pub use self::conflicts::{Conflict, conflicts};
pub use self::nearest::nearest;
pub use self::rules::{FEWEST_ROUNDS, is_reason, layer, rounds};
