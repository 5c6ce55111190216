//! What a process does before its first check, at each check, and at its end.

pub(crate) mod exit_summary;
pub(crate) mod late;
pub(crate) mod prepare;
