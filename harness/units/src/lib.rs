//! Sizes and durations as people write them: `"1.5 MiB"`, `"250ms"`.
//!
//! The attribute of gpu-leak-check reads them while it compiles, and the library when it reads a
//! configuration file or a variable. One reader, so that the same words mean the same everywhere.

mod duration;
mod quantity;
mod size;

pub use duration::milliseconds;
pub use size::bytes;
