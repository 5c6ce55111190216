//! The options of a check, and the syntax of sizes and durations.
//!
//! gpu-leak-check's attribute parses them at compile time, its library in the configuration file,
//! and `Check` has a method for each. All three are generated from [one table](options), so that
//! the same name means the same everywhere.

mod conflicts;
mod nearest;
mod table;
pub mod units;

pub use self::conflicts::{Conflict, conflicts};
pub use self::nearest::nearest;
