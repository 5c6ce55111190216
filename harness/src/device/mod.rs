//! The CUDA driver as the harness uses it: reading, synchronising and emptying. No context is ever
//! created, and none of these calls reaches the harness's own ledger.
//!
//! Everything is resolved by hand from the libcuda in the process, with its documented C types, so
//! that the harness neither needs a toolkit nor changes what other crates link.

pub(crate) mod captures;
pub(crate) mod contexts;
pub(crate) mod dl;
pub(crate) mod driver;
pub(crate) mod exclusion;
pub(crate) mod exit;
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub(crate) mod mapped;
pub(crate) mod memory;
pub(crate) mod neighbours;
pub(crate) mod pools;
pub(crate) mod start;
pub(crate) mod synchronise;
