//! Sums.

use super::Array;
use crate::compute::{Around, DType, Dims, Layout};
use crate::dispatch::kernels_of;
use crate::error::Result;

impl Array {
    /// The sum of all elements times a factor, as a scalar.
    pub(crate) fn sum_all(&self, operation: &'static str, factor: f32) -> Result<Self> {
        self.expect_dtype(operation, DType::F32)?;
        let dense = self.packed()?;
        let out = Self::empty(self.device(), Layout::scalar(), DType::F32)?;
        let around = Around {
            outer: 1,
            size: self.numel(),
            inner: 1,
        };
        kernels_of(self.device()).sum(dense.operand(), around, factor, out.operand())?;
        Ok(out)
    }

    /// The sums along one dimension, which is removed.
    pub(crate) fn sum_dim(&self, operation: &'static str, dim: usize) -> Result<Self> {
        self.expect_dtype(operation, DType::F32)?;
        self.expect_dim(operation, dim)?;
        let dense = self.packed()?;
        let layout = Layout::dense(self.layout().shape_without(dim));
        let out = Self::empty(self.device(), layout, DType::F32)?;
        let around = dense.layout().around(dim);
        kernels_of(self.device()).sum(dense.operand(), around, 1.0, out.operand())?;
        Ok(out)
    }

    /// Sums the elements that broadcasting repeated, so that a gradient gets the shape of its
    /// operand.
    pub(crate) fn sum_to(self, shape: Dims) -> Result<Self> {
        let mut current = self;
        while current.shape().len() > shape.len() {
            current = current.sum_dim("sum_to", 0)?;
        }
        for dim in 0..shape.len() {
            if shape[dim] == 1 && current.shape()[dim] != 1 {
                let mut kept = current.layout().shape;
                kept[dim] = 1;
                let reduced = current.sum_dim("sum_to", dim)?;
                current = reduced.view(Layout::dense(kept));
            }
        }
        Ok(current)
    }
}
