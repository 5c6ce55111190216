//! Matrix products.

use crate::autograd::{Saved, record, rules};
use crate::error::{Error, Result};

use super::super::kernels::Epilogue;
use super::super::layout::Layout;
use super::super::{DType, Tensor};

impl Tensor {
    /// The product of two matrices, `[m, k] · [k, n]`.
    ///
    /// # Errors
    ///
    /// When shapes, types or devices do not fit, or the device has no room.
    pub fn matmul(&self, other: &Self) -> Result<Self> {
        let out = matmul_with("matmul", self, other, Epilogue::default())?;
        record(out, [self, other], |_, needs| {
            Ok(rules::Matmul {
                lhs: needs[1].then(|| Saved::of(self)).transpose()?,
                rhs: needs[0].then(|| Saved::of(other)).transpose()?,
            })
        })
    }

    /// `self · weightᵀ + bias`: `[rows, in]` and a weight of `[out, in]` give `[rows, out]`.
    ///
    /// One storage, the result's: the bias is added on the way out.
    ///
    /// # Errors
    ///
    /// When shapes, types or devices do not fit, or the device has no room.
    pub fn linear(&self, weight: &Self, bias: &Self) -> Result<Self> {
        self.linear_with(weight, bias, false)
    }

    /// As [`Self::linear`] and [`Self::relu`] after it, without a storage for what lies between.
    ///
    /// # Errors
    ///
    /// When shapes, types or devices do not fit, or the device has no room.
    pub fn linear_relu(&self, weight: &Self, bias: &Self) -> Result<Self> {
        self.linear_with(weight, bias, true)
    }

    fn linear_with(&self, weight: &Self, bias: &Self, relu: bool) -> Result<Self> {
        let operation = "linear";
        bias.expect_dtype(operation, DType::F32)?;
        self.expect_same_device(operation, bias)?;
        let [outputs, inputs] = *weight.shape() else {
            return Err(shapes(operation, "a weight of [out, in]", self, weight));
        };
        if self.shape().len() != 2 || self.shape()[1] != inputs {
            return Err(shapes(operation, "an input of [rows, in]", self, weight));
        }
        if bias.shape() != [outputs] {
            return Err(shapes(operation, "one bias an output", bias, weight));
        }
        let dense_bias = bias.packed()?;
        let epilogue = Epilogue {
            bias: Some(dense_bias.operand()),
            relu,
        };
        let transposed = weight.view(weight.layout().transposed(0, 1));
        let out = matmul_with(operation, self, &transposed, epilogue)?;
        record(out, [self, weight, bias], |out, needs| {
            Ok(rules::Linear {
                input: needs[1].then(|| Saved::of(self)).transpose()?,
                weight: needs[0].then(|| Saved::of(weight)).transpose()?,
                activated: relu.then(|| Saved::of(out)).transpose()?,
            })
        })
    }
}

/// The product outside every graph.
fn matmul_with(
    operation: &'static str,
    lhs: &Tensor,
    rhs: &Tensor,
    epilogue: Epilogue<'_>,
) -> Result<Tensor> {
    for operand in [lhs, rhs] {
        operand.expect_dtype(operation, DType::F32)?;
    }
    lhs.expect_same_device(operation, rhs)?;
    let (&[rows, shared], &[height, columns]) = (lhs.shape(), rhs.shape()) else {
        return Err(shapes(operation, "two matrices", lhs, rhs));
    };
    if shared != height {
        return Err(shapes(operation, "[m, k] and [k, n]", lhs, rhs));
    }
    let layout = Layout::contiguous(operation, &[rows, columns])?;
    let out = Tensor::empty(lhs.device(), layout, DType::F32)?;
    out.device()
        .kernels()
        .matmul(lhs.operand(), rhs.operand(), epilogue, out.operand())?;
    Ok(out)
}

fn shapes(operation: &'static str, takes: &str, lhs: &Tensor, rhs: &Tensor) -> Error {
    Error::Shape {
        operation,
        detail: format!(
            "takes {takes}, but got {:?} and {:?}",
            lhs.shape(),
            rhs.shape()
        ),
    }
}
