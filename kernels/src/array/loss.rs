//! Losses and their gradients. A loss is one number that says how far off a prediction is.

use std::sync::Arc;

use super::Array;
use crate::compute::{DType, Layout, SoftmaxKind, Storage};
use crate::dispatch::kernels_of;
use crate::error::{Error, Result};

/// A cross entropy, and the data that its gradient needs in addition to the classes.
pub(crate) struct CrossEntropy {
    pub(crate) loss: Array,
    pub(crate) log_probabilities: Array,
    /// The number of rows, as a float.
    pub(crate) weight: Array,
}

impl Array {
    /// The mean squared difference from a target of the same shape, as a scalar.
    ///
    /// As in PyTorch, the scalar is in a storage of its input's size, which first held the squared
    /// differences. So a kept loss keeps that much memory.
    pub(crate) fn mse_loss(&self, target: &Self) -> Result<Self> {
        let operation = "mse_loss";
        for operand in [self, target] {
            operand.expect_dtype(operation, DType::F32)?;
        }
        self.expect_same_device(operation, target)?;
        if self.shape() != target.shape() {
            return Err(Error::Shape {
                operation,
                detail: format!(
                    "input shape {:?} and target shape {:?} differ",
                    self.shape(),
                    target.shape()
                ),
            });
        }
        let (input, wanted) = (self.packed()?, target.packed()?);
        let bytes = self.numel().max(1) * DType::F32.bytes();
        let storage = Arc::new(Storage::new(self.device(), bytes)?);
        kernels_of(self.device()).mse(input.operand(), wanted.operand(), &storage)?;
        Ok(Self::over(storage, Layout::scalar(), DType::F32))
    }

    /// The gradient of the mean squared error with respect to `self`, one of its two inputs. Both
    /// inputs must be contiguous.
    pub(crate) fn mse_backward(&self, other: &Self, gradient: &Self) -> Result<Self> {
        let layout = Layout::dense(self.layout().shape);
        let out = Self::empty(self.device(), layout, DType::F32)?;
        kernels_of(out.device()).mse_backward(
            gradient.operand(),
            self.operand(),
            other.operand(),
            out.operand(),
        )?;
        Ok(out)
    }

    /// The mean negative log-likelihood of one class per row under the softmax of the row, as a
    /// scalar.
    pub(crate) fn cross_entropy(&self, classes: &Self) -> Result<CrossEntropy> {
        let operation = "cross_entropy";
        self.expect_dtype(operation, DType::F32)?;
        classes.expect_dtype(operation, DType::I64)?;
        self.expect_same_device(operation, classes)?;
        if self.shape().len() != 2 || classes.shape() != &self.shape()[..1] {
            return Err(Error::Shape {
                operation,
                detail: format!(
                    "takes scores [rows, classes] and one class per row, but got {:?} and {:?}",
                    self.shape(),
                    classes.shape()
                ),
            });
        }
        let log_probabilities = self.softmax(operation, SoftmaxKind::LogSoftmax, 1)?;
        let chosen = classes.packed()?;
        let loss = Self::empty(self.device(), Layout::scalar(), DType::F32)?;
        let weight = Self::empty(self.device(), Layout::scalar(), DType::F32)?;
        kernels_of(self.device()).nll(
            log_probabilities.operand(),
            chosen.operand(),
            loss.operand(),
            weight.operand(),
        )?;
        Ok(CrossEntropy {
            loss,
            log_probabilities,
            weight,
        })
    }

    /// The gradient for the scores of a cross entropy. `self` holds its log-probabilities.
    pub(crate) fn cross_entropy_backward(
        &self,
        classes: &Self,
        weight: &Self,
        gradient: &Self,
    ) -> Result<Self> {
        let classes = classes.packed()?;
        let out = Self::empty(self.device(), *self.layout(), DType::F32)?;
        kernels_of(out.device()).cross_entropy_backward(
            gradient.operand(),
            self.operand(),
            classes.operand(),
            weight.operand(),
            out.operand(),
        )?;
        Ok(out)
    }
}
