//! What a reader of an interpreter's frames may name. Outside SemVer: such readers and the library
//! are released together.

pub use crate::capture::{Reader, install};
pub use crate::ledger::script::{LineNumber, ScriptLine};
