//! Rules of matrix products.

use crate::array::Array;
use crate::autograd::node::{Needs, OperandGradients, Rule};
use crate::autograd::saved::Saved;
use crate::compute::Binary;
use crate::error::Result;

/// The gradient rule for `a · b`: `g · bᵀ` and `aᵀ · g`.
#[derive(Clone)]
pub(crate) struct MatmulBackward {
    pub(crate) lhs: Option<Saved>,
    pub(crate) rhs: Option<Saved>,
}

impl Rule for MatmulBackward {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn apply(self: Box<Self>, gradient: Array, _needs: Needs) -> Result<OperandGradients> {
        let Self { lhs, rhs } = *self;
        let first = rhs
            .map(|rhs| gradient.matmul(&rhs.unpack()?.transposed(0, 1)))
            .transpose()?;
        let second = lhs
            .map(|lhs| lhs.unpack()?.transposed(0, 1).matmul(&gradient))
            .transpose()?;
        Ok([first, second, None])
    }
}

/// The gradient rule for `x · wᵀ + b`, with or without a rectifier after it.
#[derive(Clone)]
pub(crate) struct LinearBackward {
    pub(crate) input: Option<Saved>,
    pub(crate) weight: Option<Saved>,
    pub(crate) activated: Option<Saved>,
}

impl Rule for LinearBackward {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn apply(self: Box<Self>, gradient: Array, needs: Needs) -> Result<OperandGradients> {
        let Self {
            input,
            weight,
            activated,
        } = *self;
        let gradient = match activated {
            Some(result) => through_relu(gradient, result)?,
            None => gradient,
        };
        let towards_input = weight
            .map(|weight| gradient.matmul(&weight.unpack()?))
            .transpose()?;
        let towards_weight = input
            .map(|input| gradient.transposed(0, 1).matmul(&input.unpack()?))
            .transpose()?;
        let towards_bias = needs[2]
            .then(|| gradient.sum_dim("sum_dim", 0))
            .transpose()?;
        Ok([towards_input, towards_weight, towards_bias])
    }
}

/// Takes both arguments by value, because they are the largest arrays and must be freed before
/// anything else is allocated.
fn through_relu(gradient: Array, result: Saved) -> Result<Array> {
    gradient.binary("linear", Binary::ReluBackward, &result.unpack()?)
}
