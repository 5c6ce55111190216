//! Softmax along one dimension.

use crate::autograd::{Saved, record, rules};
use crate::error::Result;

use super::super::kernels::SoftmaxKind;
use super::super::layout::Layout;
use super::super::{DType, Tensor};

impl Tensor {
    /// The exponentials of one dimension's elements over their sum.
    ///
    /// # Errors
    ///
    /// When the dimension does not exist, it is not of `f32` or the device has no room.
    pub fn softmax(&self, dim: usize) -> Result<Self> {
        let out = softmax("softmax", SoftmaxKind::Softmax, self, dim)?;
        record(out, [self], |out, _| {
            Ok(rules::Softmax {
                kind: SoftmaxKind::Softmax,
                dim,
                result: Saved::of(out)?,
            })
        })
    }

    /// The logarithm of [`Self::softmax`], without its loss of small values.
    ///
    /// # Errors
    ///
    /// When the dimension does not exist, it is not of `f32` or the device has no room.
    pub fn log_softmax(&self, dim: usize) -> Result<Self> {
        let out = softmax("log_softmax", SoftmaxKind::LogSoftmax, self, dim)?;
        record(out, [self], |out, _| {
            Ok(rules::Softmax {
                kind: SoftmaxKind::LogSoftmax,
                dim,
                result: Saved::of(out)?,
            })
        })
    }
}

pub(super) fn softmax(
    operation: &'static str,
    kind: SoftmaxKind,
    input: &Tensor,
    dim: usize,
) -> Result<Tensor> {
    input.expect_dtype(operation, DType::F32)?;
    input.expect_dim(operation, dim)?;
    let dense = input.packed()?;
    let out = Tensor::empty(
        input.device(),
        Layout::dense(input.layout().shape),
        DType::F32,
    )?;
    let around = out.layout().around(dim);
    input
        .device()
        .kernels()
        .softmax(kind, dense.operand(), around, out.operand())?;
    Ok(out)
}
