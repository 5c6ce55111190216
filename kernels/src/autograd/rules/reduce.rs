//! Rules of sums.

use crate::array::Array;
use crate::autograd::node::{Needs, OperandGradients, Rule, only};
use crate::compute::{Dims, Unary};
use crate::error::Result;

/// The gradient rule for the sum of all elements, times a factor: every element gets the same
/// gradient.
#[derive(Clone)]
pub(crate) struct SumBackward {
    pub(crate) shape: Dims,
    pub(crate) factor: f32,
}

impl Rule for SumBackward {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn apply(self: Box<Self>, gradient: Array, _needs: Needs) -> Result<OperandGradients> {
        let spread = gradient.broadcast_to("broadcast_to", self.shape)?;
        if self.factor == 1.0 {
            return Ok(only(spread));
        }
        spread
            .unary("mul_scalar", Unary::MulScalar(self.factor))
            .map(only)
    }
}

#[derive(Clone)]
pub(crate) struct SumDimBackward {
    pub(crate) shape: Dims,
    pub(crate) dim: usize,
}

impl Rule for SumDimBackward {
    fn name(&self) -> &'static str {
        "sum_dim"
    }

    fn apply(self: Box<Self>, gradient: Array, _needs: Needs) -> Result<OperandGradients> {
        let mut kept = self.shape;
        kept[self.dim] = 1;
        let lines = gradient.reshaped(kept)?;
        lines.broadcast_to("sum_dim", self.shape).map(only)
    }
}
