//! The names that a reader of an interpreter's frames may use. They are not covered by SemVer,
//! because such readers and this library are released together.

pub use crate::capture::{Reader, install};
pub use crate::ledger::script::{LineNumber, ScriptLine};
