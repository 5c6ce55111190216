//! What a node keeps of a tensor until it runs.

use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// A tensor's content as it was when it was saved.
///
/// It shares the storage but not the tensor's place in the graph: so an operation can save its own
/// result without a cycle.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    content: Tensor,
    version: u64,
}

impl Saved {
    /// Keeps a tensor's storage.
    ///
    /// # Errors
    ///
    /// When it was made inside inference mode.
    pub(crate) fn of(tensor: &Tensor) -> Result<Self> {
        if tensor.is_inference() {
            return Err(Error::Gradient {
                detail: format!(
                    "a tensor of shape {:?} made inside inference_mode cannot be saved for a \
                     gradient; make it outside, or use no_grad",
                    tensor.shape()
                ),
            });
        }
        Ok(Self {
            content: tensor.detach(),
            version: tensor.storage().version(),
        })
    }

    /// Gives the content back.
    ///
    /// # Errors
    ///
    /// When it has been changed in place since.
    pub(crate) fn unpack(self) -> Result<Tensor> {
        let now = self.content.storage().version();
        if now == self.version {
            return Ok(self.content);
        }
        Err(Error::Gradient {
            detail: format!(
                "a tensor of shape {:?} was changed in place after it was saved (version {}, \
                 now {now}); change a copy, or only after backward",
                self.content.shape(),
                self.version
            ),
        })
    }
}
