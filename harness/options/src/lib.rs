//! The options of a check, and the syntax of sizes and durations.
//!
//! The attribute of gpu-leak-check parses the options at compile time, the library parses them when
//! it reads the configuration file, and `Check` has methods for those that apply to a block. All
//! three are generated from [one table](options), so that each name means the same everywhere.

mod rules;
mod table;
pub mod units;

pub use self::rules::{
    Conflict, FEWEST_ROUNDS, PATTERN_WORDS, conflicts, is_reason, layer, nearest, rounds,
};
