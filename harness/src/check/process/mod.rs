//! The actions of a process before its first check, at each check, and at its end.

pub(crate) mod exit_summary;
pub(crate) mod late;
pub(crate) mod listen;
pub(crate) mod warmup;
