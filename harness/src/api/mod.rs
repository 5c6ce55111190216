//! The interfaces of GPUs whose calls are heard, each a table of functions.

pub(crate) mod cuda;
