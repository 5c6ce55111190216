//! Losses. A loss is one number that says how far off a prediction is.

use super::Tensor;
use super::record::record;
use crate::array::CrossEntropy;
use crate::autograd::{Saved, rules};
use crate::error::Result;

impl Tensor {
    /// The mean squared difference from a target of the same shape, as a scalar.
    ///
    /// As in PyTorch, the scalar is in a storage of its input's size, which first held the squared
    /// differences. So a kept loss keeps that much memory.
    ///
    /// # Errors
    ///
    /// Returns an error if shapes, types or devices do not match, or the device is out of memory.
    pub fn mse_loss(&self, target: &Self) -> Result<Self> {
        let out = self.array().mse_loss(target.array())?;
        record(out, [self, target], |_, _| {
            Ok(rules::MseBackward {
                input: self.saved()?,
                target: target.saved()?,
            })
        })
    }

    /// The mean negative log-likelihood of one class per row under the softmax of the row, as a
    /// scalar.
    ///
    /// `self` holds scores of shape `[rows, classes]`; `classes` holds one `i64` per row. A class
    /// that does not exist makes the loss and the gradient of its row NaN, because a check would
    /// have to wait for the device.
    ///
    /// # Errors
    ///
    /// Returns an error if shapes, types or devices do not match, or the device is out of memory.
    pub fn cross_entropy(&self, classes: &Self) -> Result<Self> {
        let CrossEntropy {
            loss,
            log_probabilities,
            weight,
        } = self.array().cross_entropy(classes.array())?;
        record(loss, [self], |_, _| {
            Ok(rules::CrossEntropyBackward {
                log_probabilities: Saved::of(&log_probabilities),
                classes: classes.saved()?,
                weight: Saved::of(&weight),
            })
        })
    }
}
