//! Rules of views: the gradient takes the way back.

use std::ops::Range;

use crate::error::Result;
use crate::tensor::{Dims, Tensor, sum_to};

use super::{MAX_OPERANDS, OperandGradients, Rule, only};

/// Of two swapped dimensions.
#[derive(Clone)]
pub(crate) struct Transpose {
    pub(crate) first: usize,
    pub(crate) second: usize,
}

impl Rule for Transpose {
    fn name(&self) -> &'static str {
        "transpose"
    }

    fn apply(
        self: Box<Self>,
        gradient: Tensor,
        _needs: [bool; MAX_OPERANDS],
    ) -> Result<OperandGradients> {
        gradient.transpose(self.first, self.second).map(only)
    }
}

/// Of a range of one dimension: 0 outside it.
#[derive(Clone)]
pub(crate) struct Narrow {
    pub(crate) shape: Dims,
    pub(crate) dim: usize,
    pub(crate) range: Range<usize>,
}

impl Rule for Narrow {
    fn name(&self) -> &'static str {
        "narrow"
    }

    fn apply(
        self: Box<Self>,
        gradient: Tensor,
        _needs: [bool; MAX_OPERANDS],
    ) -> Result<OperandGradients> {
        gradient.padded(self.shape, self.dim, self.range).map(only)
    }
}

/// Of the same elements in another shape.
#[derive(Clone)]
pub(crate) struct Reshape {
    pub(crate) shape: Dims,
}

impl Rule for Reshape {
    fn name(&self) -> &'static str {
        "reshape"
    }

    fn apply(
        self: Box<Self>,
        gradient: Tensor,
        _needs: [bool; MAX_OPERANDS],
    ) -> Result<OperandGradients> {
        let dense = gradient.packed()?;
        Ok(only(dense.view(dense.layout().reshaped(self.shape))))
    }
}

/// Of repeated dimensions: their sums.
#[derive(Clone)]
pub(crate) struct Broadcast {
    pub(crate) shape: Dims,
}

impl Rule for Broadcast {
    fn name(&self) -> &'static str {
        "broadcast_to"
    }

    fn apply(
        self: Box<Self>,
        gradient: Tensor,
        _needs: [bool; MAX_OPERANDS],
    ) -> Result<OperandGradients> {
        sum_to(gradient, self.shape).map(only)
    }
}
