//! Softmax along one dimension, and its gradient.

use super::Array;
use crate::compute::{DType, Layout, SoftmaxKind};
use crate::dispatch::kernels_of;
use crate::error::Result;

impl Array {
    /// Softmax or its logarithm.
    pub(crate) fn softmax(
        &self,
        operation: &'static str,
        kind: SoftmaxKind,
        dim: usize,
    ) -> Result<Self> {
        self.expect_dtype(operation, DType::F32)?;
        self.expect_dim(operation, dim)?;
        let dense = self.packed()?;
        let layout = Layout::dense(self.layout().shape);
        let out = Self::empty(self.device(), layout, DType::F32)?;
        let around = out.layout().around(dim);
        kernels_of(self.device()).softmax(kind, dense.operand(), around, out.operand())?;
        Ok(out)
    }

    /// The gradient of the input, from the gradient of the result. `self` is the result.
    pub(crate) fn softmax_backward(
        &self,
        kind: SoftmaxKind,
        dim: usize,
        gradient: &Self,
    ) -> Result<Self> {
        let dense = gradient.packed()?;
        let out = Self::empty(self.device(), *self.layout(), DType::F32)?;
        let around = self.layout().around(dim);
        kernels_of(self.device()).softmax_backward(
            kind,
            dense.operand(),
            self.operand(),
            around,
            out.operand(),
        )?;
        Ok(out)
    }
}
