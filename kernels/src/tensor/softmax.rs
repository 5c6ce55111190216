//! Softmax along one dimension.

use super::Tensor;
use super::record::record;
use crate::autograd::{Saved, rules};
use crate::compute::SoftmaxKind;
use crate::error::Result;

impl Tensor {
    /// The exponentials of one dimension's elements, divided by their sum.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension does not exist, the tensor's element type is not `f32`, or
    /// the device is out of memory.
    pub fn softmax(&self, dim: usize) -> Result<Self> {
        self.softmax_of_kind("softmax", SoftmaxKind::Softmax, dim)
    }

    /// The logarithm of [`Self::softmax`], computed so that small values are not lost.
    ///
    /// # Errors
    ///
    /// Returns an error if the dimension does not exist, the tensor's element type is not `f32`, or
    /// the device is out of memory.
    pub fn log_softmax(&self, dim: usize) -> Result<Self> {
        self.softmax_of_kind("log_softmax", SoftmaxKind::LogSoftmax, dim)
    }

    fn softmax_of_kind(
        &self,
        operation: &'static str,
        kind: SoftmaxKind,
        dim: usize,
    ) -> Result<Self> {
        let out = self.array().softmax(operation, kind, dim)?;
        record(out, [self], |out, _| {
            Ok(rules::SoftmaxBackward {
                kind,
                dim,
                result: Saved::of(out),
            })
        })
    }
}
