//! Rules of matrix products.

use crate::autograd::Saved;
use crate::error::Result;
use crate::tensor::{Binary, Tensor, binary};

use super::{MAX_OPERANDS, OperandGradients, Rule};

/// Of `a · b`: `g · bᵀ` and `aᵀ · g`.
#[derive(Clone)]
pub(crate) struct Matmul {
    pub(crate) lhs: Option<Saved>,
    pub(crate) rhs: Option<Saved>,
}

impl Rule for Matmul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn apply(
        self: Box<Self>,
        gradient: Tensor,
        _needs: [bool; MAX_OPERANDS],
    ) -> Result<OperandGradients> {
        let Self { lhs, rhs } = *self;
        let first = rhs
            .map(|rhs| gradient.matmul(&rhs.unpack()?.transpose(0, 1)?))
            .transpose()?;
        let second = lhs
            .map(|lhs| lhs.unpack()?.transpose(0, 1)?.matmul(&gradient))
            .transpose()?;
        Ok([first, second, None])
    }
}

/// Of `x · wᵀ + b`, with or without a rectifier after it.
#[derive(Clone)]
pub(crate) struct Linear {
    pub(crate) input: Option<Saved>,
    pub(crate) weight: Option<Saved>,
    pub(crate) activated: Option<Saved>,
}

impl Rule for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn apply(
        self: Box<Self>,
        gradient: Tensor,
        needs: [bool; MAX_OPERANDS],
    ) -> Result<OperandGradients> {
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
            .map(|input| gradient.transpose(0, 1)?.matmul(&input.unpack()?))
            .transpose()?;
        let towards_bias = needs[2].then(|| gradient.sum_dim(0)).transpose()?;
        Ok([towards_input, towards_weight, towards_bias])
    }
}

/// Lets go of both before anything else is made: they are the largest things held here.
fn through_relu(gradient: Tensor, result: Saved) -> Result<Tensor> {
    binary("linear", Binary::ReluBackward, &gradient, &result.unpack()?)
}
