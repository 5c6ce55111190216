//! Why a check came to no result of its own, for its reader.

use serde::{Deserialize, Serialize};

use super::Code;

/// Why a check came to no result of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Reason {
    /// A stable word: `no-gpu`, `poisoned`, `no-probe`. `cargo gpu-leak explain` knows each.
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    pub code: Code,
    /// One sentence: what is wrong.
    pub what: String,
    /// One sentence: what to do about it.
    pub remedy: String,
}

impl Reason {
    /// A reason with that code.
    #[must_use]
    pub fn new(code: Code, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            code,
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}
