//! Rules of operations on each element.

use crate::autograd::Saved;
use crate::error::Result;
use crate::tensor::{Binary, Dims, Tensor, binary, sum_to};

use super::{MAX_OPERANDS, OperandGradients, Rule, only};

/// Of `a + b` and `a − b`.
#[derive(Clone)]
pub(crate) struct Sum {
    pub(crate) shapes: [Dims; 2],
    pub(crate) negate_second: bool,
}

impl Rule for Sum {
    fn name(&self) -> &'static str {
        if self.negate_second { "sub" } else { "add" }
    }

    fn apply(
        self: Box<Self>,
        gradient: Tensor,
        needs: [bool; MAX_OPERANDS],
    ) -> Result<OperandGradients> {
        let [first, second] = self.shapes;
        Ok([
            needs[0]
                .then(|| sum_to(gradient.clone(), first))
                .transpose()?,
            needs[1]
                .then(|| {
                    let spread = if self.negate_second {
                        gradient.mul_scalar(-1.0)?
                    } else {
                        gradient
                    };
                    sum_to(spread, second)
                })
                .transpose()?,
            None,
        ])
    }
}

/// Of `a · b`, element by element. Each operand's gradient needs the other operand.
#[derive(Clone)]
pub(crate) struct Product {
    pub(crate) shapes: [Dims; 2],
    pub(crate) first: Option<Saved>,
    pub(crate) second: Option<Saved>,
}

impl Rule for Product {
    fn name(&self) -> &'static str {
        "mul"
    }

    fn apply(
        self: Box<Self>,
        gradient: Tensor,
        _needs: [bool; MAX_OPERANDS],
    ) -> Result<OperandGradients> {
        let towards = |other: Option<Saved>, shape: Dims| {
            other
                .map(|other| {
                    let scaled = binary("mul", Binary::Mul, &gradient, &other.unpack()?)?;
                    sum_to(scaled, shape)
                })
                .transpose()
        };
        let [first, second] = self.shapes;
        Ok([
            towards(self.second, first)?,
            towards(self.first, second)?,
            None,
        ])
    }
}

/// Of `a · factor + constant`.
#[derive(Clone)]
pub(crate) struct Scale {
    pub(crate) factor: f32,
}

impl Rule for Scale {
    fn name(&self) -> &'static str {
        "mul_scalar"
    }

    fn apply(
        self: Box<Self>,
        gradient: Tensor,
        _needs: [bool; MAX_OPERANDS],
    ) -> Result<OperandGradients> {
        if self.factor == 1.0 {
            return Ok(only(gradient));
        }
        gradient.mul_scalar(self.factor).map(only)
    }
}

/// Of the sine: the cosine of the input.
#[derive(Clone)]
pub(crate) struct Sin {
    pub(crate) input: Saved,
}

impl Rule for Sin {
    fn name(&self) -> &'static str {
        "sin"
    }

    fn apply(
        self: Box<Self>,
        gradient: Tensor,
        _needs: [bool; MAX_OPERANDS],
    ) -> Result<OperandGradients> {
        let input = self.input.unpack()?;
        binary("sin", Binary::SinBackward, &gradient, &input).map(only)
    }
}

/// Of the rectifier: nothing where the result is 0.
#[derive(Clone)]
pub(crate) struct Relu {
    pub(crate) result: Saved,
}

impl Rule for Relu {
    fn name(&self) -> &'static str {
        "relu"
    }

    fn apply(
        self: Box<Self>,
        gradient: Tensor,
        _needs: [bool; MAX_OPERANDS],
    ) -> Result<OperandGradients> {
        let result = self.result.unpack()?;
        binary("relu", Binary::ReluBackward, &gradient, &result).map(only)
    }
}
