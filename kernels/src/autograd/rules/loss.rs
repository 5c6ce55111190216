//! Rules of losses.

use crate::array::Array;
use crate::autograd::node::{Needs, OperandGradients, Rule, only};
use crate::autograd::saved::Saved;
use crate::error::Result;

/// The rule for the mean squared error, which is symmetric except for the sign.
#[derive(Clone)]
pub(crate) struct MseBackward {
    pub(crate) input: Saved,
    pub(crate) target: Saved,
}

impl Rule for MseBackward {
    fn name(&self) -> &'static str {
        "mse_loss"
    }

    fn apply(self: Box<Self>, gradient: Array, needs: Needs) -> Result<OperandGradients> {
        let input = self.input.unpack()?.packed()?;
        let target = self.target.unpack()?.packed()?;
        let towards = |near: &Array, far: &Array| near.mse_backward(far, &gradient);
        Ok([
            needs[0].then(|| towards(&input, &target)).transpose()?,
            needs[1].then(|| towards(&target, &input)).transpose()?,
            None,
        ])
    }
}

#[derive(Clone)]
pub(crate) struct CrossEntropyBackward {
    pub(crate) log_probabilities: Saved,
    pub(crate) classes: Saved,
    pub(crate) weight: Saved,
}

impl Rule for CrossEntropyBackward {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    fn apply(self: Box<Self>, gradient: Array, _needs: Needs) -> Result<OperandGradients> {
        let log_probabilities = self.log_probabilities.unpack()?;
        let classes = self.classes.unpack()?;
        let weight = self.weight.unpack()?;
        log_probabilities
            .cross_entropy_backward(&classes, &weight, &gradient)
            .map(only)
    }
}
