//! What a process does around its checks: before the first, at each, and as it ends.

pub(crate) mod late;
pub(crate) mod listen;
pub(crate) mod summary;
pub(crate) mod warmup;
