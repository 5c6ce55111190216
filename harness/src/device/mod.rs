//! The CUDA driver as the harness uses it: it reads usage, synchronises contexts and empties pools.
//! It never creates a context, and none of its calls reaches the harness's own ledger.
//!
//! Functions are resolved by hand from the libcuda in the process, with their documented C types.
//! So the harness needs no toolkit and does not change what other crates link.

pub(crate) mod captures;
pub(crate) mod contexts;
pub(crate) mod driver;
pub(crate) mod exclusion;
pub(crate) mod memory;
pub(crate) mod pools;
pub(crate) mod start;
pub(crate) mod synchronise;
