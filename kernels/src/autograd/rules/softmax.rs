//! The rule of softmax and its logarithm.

use crate::autograd::Saved;
use crate::error::Result;
use crate::tensor::{DType, SoftmaxKind, Tensor};

use super::{MAX_OPERANDS, OperandGradients, Rule, only};

/// Of either function, from its own result.
#[derive(Clone)]
pub(crate) struct Softmax {
    pub(crate) kind: SoftmaxKind,
    pub(crate) dim: usize,
    pub(crate) result: Saved,
}

impl Rule for Softmax {
    fn name(&self) -> &'static str {
        match self.kind {
            SoftmaxKind::Softmax => "softmax",
            SoftmaxKind::LogSoftmax => "log_softmax",
        }
    }

    fn apply(
        self: Box<Self>,
        gradient: Tensor,
        _needs: [bool; MAX_OPERANDS],
    ) -> Result<OperandGradients> {
        let result = self.result.unpack()?;
        let dense = gradient.packed()?;
        let out = Tensor::empty(result.device(), result.layout(), DType::F32)?;
        let around = result.layout().around(self.dim);
        out.device().kernels().softmax_backward(
            self.kind,
            dense.operand(),
            result.operand(),
            around,
            out.operand(),
        )?;
        Ok(only(out))
    }
}
