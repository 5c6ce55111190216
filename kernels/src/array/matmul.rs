//! Matrix products.

use super::Array;
use crate::compute::{DType, Epilogue, Layout};
use crate::dispatch::kernels_of;
use crate::error::{Error, Result};

impl Array {
    /// The product of two matrices, `[m, k] · [k, n]`.
    pub(crate) fn matmul(&self, other: &Self) -> Result<Self> {
        self.matmul_with("matmul", other, Epilogue::default())
    }

    /// `self · weightᵀ + bias`, with or without a rectifier after it.
    pub(crate) fn linear(&self, weight: &Self, bias: &Self, relu: bool) -> Result<Self> {
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
            return Err(shapes(operation, "one bias per output", bias, weight));
        }
        let dense_bias = bias.packed()?;
        let epilogue = Epilogue {
            bias: Some(dense_bias.operand()),
            relu,
        };
        self.matmul_with(operation, &weight.transposed(0, 1), epilogue)
    }

    fn matmul_with(
        &self,
        operation: &'static str,
        other: &Self,
        epilogue: Epilogue<'_>,
    ) -> Result<Self> {
        for operand in [self, other] {
            operand.expect_dtype(operation, DType::F32)?;
        }
        self.expect_same_device(operation, other)?;
        let (&[rows, shared], &[height, columns]) = (self.shape(), other.shape()) else {
            return Err(shapes(operation, "two matrices", self, other));
        };
        if shared != height {
            return Err(shapes(operation, "[m, k] and [k, n]", self, other));
        }
        let layout = Layout::contiguous(operation, &[rows, columns])?;
        let out = Self::empty(self.device(), layout, DType::F32)?;
        kernels_of(out.device()).matmul(
            self.operand(),
            other.operand(),
            epilogue,
            out.operand(),
        )?;
        Ok(out)
    }
}

fn shapes(operation: &'static str, takes: &str, lhs: &Array, rhs: &Array) -> Error {
    Error::Shape {
        operation,
        detail: format!(
            "takes {takes}, but got {:?} and {:?}",
            lhs.shape(),
            rhs.shape()
        ),
    }
}
