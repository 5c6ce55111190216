//! What a process does before its first check, at each check, and at its end.

pub(crate) mod late;
pub(crate) mod listen;
pub(crate) mod summary;
pub(crate) mod warmup;
