//! One live resource.

use serde::{Deserialize, Serialize};

use super::event::{Creation, Key};

/// A resource that is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// When it was made, in the order of the ledger's events.
    pub sequence: u64,
    /// What was made, where, and by whom.
    pub made: Creation,
}

impl Record {
    /// Its identity.
    #[must_use]
    pub fn key(&self) -> Key {
        self.made.key
    }
}
