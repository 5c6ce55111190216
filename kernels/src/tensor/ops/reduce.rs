//! Sums and means.

use crate::autograd::{record, rules};
use crate::error::Result;

use super::super::layout::{Around, Dims, Layout};
use super::super::{DType, Tensor};

impl Tensor {
    /// The sum of all elements, a scalar; 0 when there are none.
    ///
    /// # Errors
    ///
    /// When it is not of `f32` or the device has no room.
    pub fn sum(&self) -> Result<Self> {
        let out = reduce_all("sum", self, 1.0)?;
        record(out, [self], |_, _| {
            Ok(rules::Total {
                shape: self.layout().shape,
                factor: 1.0,
            })
        })
    }

    /// The mean of all elements, a scalar; NaN when there are none.
    ///
    /// # Errors
    ///
    /// When it is not of `f32` or the device has no room.
    pub fn mean(&self) -> Result<Self> {
        let factor = 1.0 / self.numel() as f32;
        let out = reduce_all("mean", self, factor)?;
        record(out, [self], |_, _| {
            Ok(rules::Total {
                shape: self.layout().shape,
                factor,
            })
        })
    }

    /// The sums along one dimension, which goes.
    ///
    /// # Errors
    ///
    /// When the dimension does not exist, it is not of `f32` or the device has no room.
    pub fn sum_dim(&self, dim: usize) -> Result<Self> {
        let out = reduce_dim("sum_dim", self, dim)?;
        record(out, [self], |_, _| {
            Ok(rules::TotalOf {
                shape: self.layout().shape,
                dim,
            })
        })
    }
}

fn reduce_all(operation: &'static str, input: &Tensor, factor: f32) -> Result<Tensor> {
    input.expect_dtype(operation, DType::F32)?;
    let dense = input.packed()?;
    let out = Tensor::empty(input.device(), Layout::scalar(), DType::F32)?;
    let around = Around {
        outer: 1,
        size: input.numel(),
        inner: 1,
    };
    input
        .device()
        .kernels()
        .sum(dense.operand(), around, factor, out.operand())?;
    Ok(out)
}

fn reduce_dim(operation: &'static str, input: &Tensor, dim: usize) -> Result<Tensor> {
    input.expect_dtype(operation, DType::F32)?;
    input.expect_dim(operation, dim)?;
    let dense = input.packed()?;
    let layout = Layout::dense(input.layout().shape_without(dim));
    let out = Tensor::empty(input.device(), layout, DType::F32)?;
    let around = dense.layout().around(dim);
    input
        .device()
        .kernels()
        .sum(dense.operand(), around, 1.0, out.operand())?;
    Ok(out)
}

/// Sums what broadcasting repeated, so that a gradient gets the shape of its operand.
pub(crate) fn sum_to(gradient: Tensor, shape: Dims) -> Result<Tensor> {
    let mut current = gradient;
    while current.shape().len() > shape.len() {
        current = reduce_dim("sum_to", &current, 0)?;
    }
    for dim in 0..shape.len() {
        if shape[dim] == 1 && current.shape()[dim] != 1 {
            let mut kept = current.layout().shape;
            kept[dim] = 1;
            let reduced = reduce_dim("sum_to", &current, dim)?;
            current = reduced.view(Layout::dense(kept));
        }
    }
    Ok(current)
}
