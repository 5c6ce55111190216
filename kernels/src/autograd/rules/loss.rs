//! Rules of losses.

use crate::autograd::Saved;
use crate::error::Result;
use crate::tensor::{DType, Layout, Tensor};

use super::{MAX_OPERANDS, OperandGradients, Rule, only};

/// Of the mean squared error, symmetric but for the sign.
#[derive(Clone)]
pub(crate) struct Mse {
    pub(crate) input: Saved,
    pub(crate) target: Saved,
}

impl Rule for Mse {
    fn name(&self) -> &'static str {
        "mse_loss"
    }

    fn apply(
        self: Box<Self>,
        gradient: Tensor,
        needs: [bool; MAX_OPERANDS],
    ) -> Result<OperandGradients> {
        let input = self.input.unpack()?.packed()?;
        let target = self.target.unpack()?.packed()?;
        let towards = |near: &Tensor, far: &Tensor| -> Result<Tensor> {
            let layout = Layout::dense(near.layout().shape);
            let out = Tensor::empty(near.device(), layout, DType::F32)?;
            out.device().kernels().mse_backward(
                gradient.operand(),
                near.operand(),
                far.operand(),
                out.operand(),
            )?;
            Ok(out)
        };
        Ok([
            needs[0].then(|| towards(&input, &target)).transpose()?,
            needs[1].then(|| towards(&target, &input)).transpose()?,
            None,
        ])
    }
}

/// Of the cross entropy.
#[derive(Clone)]
pub(crate) struct CrossEntropy {
    pub(crate) log_probabilities: Saved,
    pub(crate) classes: Saved,
    pub(crate) weight: Saved,
}

impl Rule for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross_entropy"
    }

    fn apply(
        self: Box<Self>,
        gradient: Tensor,
        _needs: [bool; MAX_OPERANDS],
    ) -> Result<OperandGradients> {
        let log_probabilities = self.log_probabilities.unpack()?;
        let classes = self.classes.unpack()?.packed()?;
        let weight = self.weight.unpack()?;
        let layout = log_probabilities.layout();
        let out = Tensor::empty(log_probabilities.device(), layout, DType::F32)?;
        out.device().kernels().cross_entropy_backward(
            gradient.operand(),
            log_probabilities.operand(),
            classes.operand(),
            weight.operand(),
            out.operand(),
        )?;
        Ok(only(out))
    }
}
