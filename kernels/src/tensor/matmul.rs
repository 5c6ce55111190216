//! Matrix products.

use super::Tensor;
use super::record::record;
use crate::autograd::{Saved, rules};
use crate::error::Result;

impl Tensor {
    /// The product of two matrices, `[m, k] · [k, n]`.
    ///
    /// # Errors
    ///
    /// Returns an error if shapes, types or devices do not match, or the device is out of memory.
    pub fn matmul(&self, other: &Self) -> Result<Self> {
        let out = self.array().matmul(other.array())?;
        record(out, [self, other], |_, needs| {
            Ok(rules::MatmulBackward {
                lhs: needs[1].then(|| self.saved()).transpose()?,
                rhs: needs[0].then(|| other.saved()).transpose()?,
            })
        })
    }

    /// `self · weightᵀ + bias`: `[rows, in]` and a weight of `[out, in]` give `[rows, out]`.
    ///
    /// Only the result is allocated, because the bias is added before the product is stored.
    ///
    /// # Errors
    ///
    /// Returns an error if shapes, types or devices do not match, or the device is out of memory.
    pub fn linear(&self, weight: &Self, bias: &Self) -> Result<Self> {
        self.linear_with(weight, bias, false)
    }

    /// Computes [`Self::linear`] followed by [`Self::relu`], without storing the intermediate
    /// result.
    ///
    /// # Errors
    ///
    /// Returns an error if shapes, types or devices do not match, or the device is out of memory.
    pub fn linear_relu(&self, weight: &Self, bias: &Self) -> Result<Self> {
        self.linear_with(weight, bias, true)
    }

    fn linear_with(&self, weight: &Self, bias: &Self, relu: bool) -> Result<Self> {
        let out = self.array().linear(weight.array(), bias.array(), relu)?;
        record(out, [self, weight, bias], |out, needs| {
            Ok(rules::LinearBackward {
                input: needs[1].then(|| self.saved()).transpose()?,
                weight: needs[0].then(|| weight.saved()).transpose()?,
                activated: relu.then(|| Saved::of(out)),
            })
        })
    }
}
