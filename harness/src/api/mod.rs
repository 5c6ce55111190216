//! The watched GPU APIs, each a table of functions.

pub(crate) mod cuda;
