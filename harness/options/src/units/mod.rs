//! Sizes and durations as people write them, such as `"1.5 MiB"` and `"250ms"`.

mod duration;
mod quantity;
mod size;

pub use duration::milliseconds;
pub use size::{bytes, is_unit_of_size};
