//! Losses: one number for how far a prediction is off.

use std::sync::Arc;

use crate::autograd::{Saved, record, rules};
use crate::error::{Error, Result};

use super::super::kernels::SoftmaxKind;
use super::super::layout::Layout;
use super::super::storage::Storage;
use super::super::{DType, Tensor};
use super::softmax::softmax;

impl Tensor {
    /// The mean squared difference to a target of the same shape, a scalar.
    ///
    /// As in PyTorch, the scalar stands in a storage of its input's size: the squared differences
    /// were there first. So a kept loss keeps that much memory.
    ///
    /// # Errors
    ///
    /// When shapes, types or devices do not fit, or the device has no room.
    pub fn mse_loss(&self, target: &Self) -> Result<Self> {
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
        self.device()
            .kernels()
            .mse(input.operand(), wanted.operand(), &storage)?;
        let out = Self::over(storage, Layout::scalar(), DType::F32);
        record(out, [self, target], |_, _| {
            Ok(rules::Mse {
                input: Saved::of(self)?,
                target: Saved::of(target)?,
            })
        })
    }

    /// The mean negative log-likelihood of one class a row under the softmax of the row, a scalar.
    ///
    /// `self` holds scores of shape `[rows, classes]`, `classes` one `i64` a row. A class that does
    /// not exist makes the loss NaN, because checking it would have to wait for the device.
    ///
    /// # Errors
    ///
    /// When shapes, types or devices do not fit, or the device has no room.
    pub fn cross_entropy(&self, classes: &Self) -> Result<Self> {
        let operation = "cross_entropy";
        self.expect_dtype(operation, DType::F32)?;
        classes.expect_dtype(operation, DType::I64)?;
        self.expect_same_device(operation, classes)?;
        if self.shape().len() != 2 || classes.shape() != &self.shape()[..1] {
            return Err(Error::Shape {
                operation,
                detail: format!(
                    "takes scores [rows, classes] and one class a row, but got {:?} and {:?}",
                    self.shape(),
                    classes.shape()
                ),
            });
        }
        let log_probabilities = softmax(operation, SoftmaxKind::LogSoftmax, self, 1)?;
        let chosen = classes.packed()?;
        let out = Self::empty(self.device(), Layout::scalar(), DType::F32)?;
        let weight = Self::empty(self.device(), Layout::scalar(), DType::F32)?;
        self.device().kernels().nll(
            log_probabilities.operand(),
            chosen.operand(),
            out.operand(),
            weight.operand(),
        )?;
        record(out, [self], |_, _| {
            Ok(rules::CrossEntropy {
                log_probabilities: Saved::of(&log_probabilities)?,
                classes: Saved::of(classes)?,
                weight: Saved::of(&weight)?,
            })
        })
    }
}
