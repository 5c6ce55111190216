//! Sums and means.

use super::Tensor;
use super::record::record;
use crate::autograd::rules;
use crate::error::Result;

impl Tensor {
    /// The sum of all elements, as a scalar; 0 if there are none.
    ///
    /// # Errors
    ///
    /// Returns an error if the element type is not `f32` or the device is out of memory.
    pub fn sum(&self) -> Result<Self> {
        let out = self.array().sum_all("sum", 1.0)?;
        record(out, [self], |_, _| {
            Ok(rules::SumBackward {
                shape: self.array().layout().shape,
                factor: 1.0,
            })
        })
    }

    /// The mean of all elements, as a scalar; NaN if there are none.
    ///
    /// # Errors
    ///
    /// Returns an error if the element type is not `f32` or the device is out of memory.
    pub fn mean(&self) -> Result<Self> {
        let factor = 1.0 / self.numel() as f32;
        let out = self.array().sum_all("mean", factor)?;
        record(out, [self], |_, _| {
            Ok(rules::SumBackward {
                shape: self.array().layout().shape,
                factor,
            })
        })
    }

    /// The sums along one dimension, which is removed.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension does not exist, the tensor's element type is not `f32`, or
    /// the device is out of memory.
    pub fn sum_dim(&self, dim: usize) -> Result<Self> {
        let out = self.array().sum_dim("sum_dim", dim)?;
        record(out, [self], |_, _| {
            Ok(rules::SumDimBackward {
                shape: self.array().layout().shape,
                dim,
            })
        })
    }
}
