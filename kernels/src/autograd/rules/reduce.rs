//! Rules of sums.

use crate::error::Result;
use crate::tensor::{Dims, Layout, Tensor};

use super::{MAX_OPERANDS, OperandGradients, Rule, only};

/// Of the sum over everything, times a factor: every element gets the same.
#[derive(Clone)]
pub(crate) struct Total {
    pub(crate) shape: Dims,
    pub(crate) factor: f32,
}

impl Rule for Total {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn apply(
        self: Box<Self>,
        gradient: Tensor,
        _needs: [bool; MAX_OPERANDS],
    ) -> Result<OperandGradients> {
        let spread = gradient.broadcast_to(&*self.shape)?;
        if self.factor == 1.0 {
            return Ok(only(spread));
        }
        spread.mul_scalar(self.factor).map(only)
    }
}

/// Of the sums along one dimension.
#[derive(Clone)]
pub(crate) struct TotalOf {
    pub(crate) shape: Dims,
    pub(crate) dim: usize,
}

impl Rule for TotalOf {
    fn name(&self) -> &'static str {
        "sum_dim"
    }

    fn apply(
        self: Box<Self>,
        gradient: Tensor,
        _needs: [bool; MAX_OPERANDS],
    ) -> Result<OperandGradients> {
        let mut kept = self.shape;
        kept[self.dim] = 1;
        let dense = gradient.packed()?;
        let spread = Layout::broadcast_to(&dense.layout().reshaped(kept), "sum_dim", self.shape)?;
        Ok(only(dense.view(spread)))
    }
}
