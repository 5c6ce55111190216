//! The options of a check, and how sizes and durations are written.
//!
//! gpu-leak-check's attribute reads them while it compiles, its library when it reads a configuration
//! file, and `Check` has a method for each. All three are made from [one table](options), so that
//! the same name means the same everywhere.

mod table;
pub mod units;
