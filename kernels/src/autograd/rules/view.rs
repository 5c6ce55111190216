//! Rules of views: the inverse view of the gradient.

use std::ops::Range;

use crate::array::Array;
use crate::autograd::node::{Needs, OperandGradients, Rule, only};
use crate::compute::Dims;
use crate::error::Result;

#[derive(Clone)]
pub(crate) struct TransposeBackward {
    pub(crate) first: usize,
    pub(crate) second: usize,
}

impl Rule for TransposeBackward {
    fn name(&self) -> &'static str {
        "transpose"
    }

    fn apply(self: Box<Self>, gradient: Array, _needs: Needs) -> Result<OperandGradients> {
        Ok(only(gradient.transposed(self.first, self.second)))
    }
}

/// The gradient rule for a range of one dimension: the gradient is 0 outside the range.
#[derive(Clone)]
pub(crate) struct NarrowBackward {
    pub(crate) shape: Dims,
    pub(crate) dim: usize,
    pub(crate) range: Range<usize>,
}

impl Rule for NarrowBackward {
    fn name(&self) -> &'static str {
        "narrow"
    }

    fn apply(self: Box<Self>, gradient: Array, _needs: Needs) -> Result<OperandGradients> {
        gradient.padded(self.shape, self.dim, self.range).map(only)
    }
}

#[derive(Clone)]
pub(crate) struct ReshapeBackward {
    pub(crate) shape: Dims,
}

impl Rule for ReshapeBackward {
    fn name(&self) -> &'static str {
        "reshape"
    }

    fn apply(self: Box<Self>, gradient: Array, _needs: Needs) -> Result<OperandGradients> {
        gradient.reshaped(self.shape).map(only)
    }
}

/// The gradient rule for repeated dimensions: the gradient is summed over them.
#[derive(Clone)]
pub(crate) struct BroadcastBackward {
    pub(crate) shape: Dims,
}

impl Rule for BroadcastBackward {
    fn name(&self) -> &'static str {
        "broadcast_to"
    }

    fn apply(self: Box<Self>, gradient: Array, _needs: Needs) -> Result<OperandGradients> {
        gradient.sum_to(self.shape).map(only)
    }
}
