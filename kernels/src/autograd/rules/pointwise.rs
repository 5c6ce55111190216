//! Rules of operations on each element.

use crate::array::Array;
use crate::autograd::node::{Needs, OperandGradients, Rule, only};
use crate::autograd::saved::Saved;
use crate::compute::{Binary, Dims, Unary};
use crate::error::Result;

/// The gradient rule for `a + b` and `a − b`.
#[derive(Clone)]
pub(crate) struct AddBackward {
    pub(crate) shapes: [Dims; 2],
    pub(crate) negate_second: bool,
}

impl Rule for AddBackward {
    fn name(&self) -> &'static str {
        if self.negate_second { "sub" } else { "add" }
    }

    fn apply(self: Box<Self>, gradient: Array, needs: Needs) -> Result<OperandGradients> {
        let [first, second] = self.shapes;
        Ok([
            needs[0]
                .then(|| gradient.clone().sum_to(first))
                .transpose()?,
            needs[1]
                .then(|| {
                    let spread = if self.negate_second {
                        gradient.unary("mul_scalar", Unary::MulScalar(-1.0))?
                    } else {
                        gradient
                    };
                    spread.sum_to(second)
                })
                .transpose()?,
            None,
        ])
    }
}

/// The gradient rule for `a · b`, element by element. Each operand's gradient needs the other
/// operand.
#[derive(Clone)]
pub(crate) struct MulBackward {
    pub(crate) shapes: [Dims; 2],
    pub(crate) first: Option<Saved>,
    pub(crate) second: Option<Saved>,
}

impl Rule for MulBackward {
    fn name(&self) -> &'static str {
        "mul"
    }

    fn apply(self: Box<Self>, gradient: Array, _needs: Needs) -> Result<OperandGradients> {
        let towards = |other: Option<Saved>, shape: Dims| {
            other
                .map(|other| {
                    let scaled = gradient.binary("mul", Binary::Mul, &other.unpack()?)?;
                    scaled.sum_to(shape)
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

/// The gradient rule for `a · factor + constant`.
#[derive(Clone)]
pub(crate) struct ScaleBackward {
    pub(crate) factor: f32,
}

impl Rule for ScaleBackward {
    fn name(&self) -> &'static str {
        "mul_scalar"
    }

    fn apply(self: Box<Self>, gradient: Array, _needs: Needs) -> Result<OperandGradients> {
        if self.factor == 1.0 {
            return Ok(only(gradient));
        }
        gradient
            .unary("mul_scalar", Unary::MulScalar(self.factor))
            .map(only)
    }
}

/// The gradient rule for the sine: the cosine of the input.
#[derive(Clone)]
pub(crate) struct SinBackward {
    pub(crate) input: Saved,
}

impl Rule for SinBackward {
    fn name(&self) -> &'static str {
        "sin"
    }

    fn apply(self: Box<Self>, gradient: Array, _needs: Needs) -> Result<OperandGradients> {
        let input = self.input.unpack()?;
        gradient
            .binary("sin", Binary::SinBackward, &input)
            .map(only)
    }
}

/// The gradient rule for the rectifier: the gradient is 0 where the result is 0.
#[derive(Clone)]
pub(crate) struct ReluBackward {
    pub(crate) result: Saved,
}

impl Rule for ReluBackward {
    fn name(&self) -> &'static str {
        "relu"
    }

    fn apply(self: Box<Self>, gradient: Array, _needs: Needs) -> Result<OperandGradients> {
        let result = self.result.unpack()?;
        gradient
            .binary("relu", Binary::ReluBackward, &result)
            .map(only)
    }
}
