//! The parts of a tensor that a node keeps until it runs.

use crate::array::Array;
use crate::error::{Error, Result};

/// An array's contents as they were when the array was saved.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    content: Array,
    version: u64,
}

impl Saved {
    /// Saves an array and keeps its storage alive.
    pub(crate) fn of(content: &Array) -> Self {
        Self {
            content: content.clone(),
            version: content.storage().version(),
        }
    }

    /// Returns the contents.
    ///
    /// # Errors
    ///
    /// Returns an error if the contents have been changed in place since they were saved.
    pub(crate) fn unpack(self) -> Result<Array> {
        let now = self.content.storage().version();
        if now == self.version {
            return Ok(self.content);
        }
        Err(Error::Gradient {
            detail: format!(
                "a tensor of shape {:?} was changed in place after it was saved (version {}, \
                 now {now}); change a copy, or wait until after backward",
                self.content.shape(),
                self.version
            ),
        })
    }
}
