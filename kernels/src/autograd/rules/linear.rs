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
        // The activation goes before anything else is made: it is the largest thing held here.
        let gradient = match activated {
            Some(result) => binary("linear", Binary::ReluBackward, &gradient, &result.unpack()?)?,
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
