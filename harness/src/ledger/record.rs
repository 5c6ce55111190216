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
    /// Whether a key is an address inside it.
    #[must_use]
    pub fn contains(&self, key: Key) -> bool {
        let Key { space, value } = self.made.key;
        space == key.space && (value..value.saturating_add(self.made.bytes)).contains(&key.value)
    }

    /// Whether a key is its own or an address inside it.
    #[must_use]
    pub fn is_at(&self, key: Key) -> bool {
        self.made.key == key || self.contains(key)
    }

    /// Its identity.
    #[must_use]
    pub fn key(&self) -> Key {
        self.made.key
    }
}
