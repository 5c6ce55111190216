//! The gradient rule for softmax and its logarithm.

use crate::array::Array;
use crate::autograd::node::{Needs, OperandGradients, Rule, only};
use crate::autograd::saved::Saved;
use crate::compute::SoftmaxKind;
use crate::error::Result;

/// The gradient rule for both functions. It uses only the result of the function.
#[derive(Clone)]
pub(crate) struct SoftmaxBackward {
    pub(crate) kind: SoftmaxKind,
    pub(crate) dim: usize,
    pub(crate) result: Saved,
}

impl Rule for SoftmaxBackward {
    fn name(&self) -> &'static str {
        match self.kind {
            SoftmaxKind::Softmax => "softmax",
            SoftmaxKind::LogSoftmax => "log_softmax",
        }
    }

    fn apply(self: Box<Self>, gradient: Array, _needs: Needs) -> Result<OperandGradients> {
        let result = self.result.unpack()?;
        result
            .softmax_backward(self.kind, self.dim, &gradient)
            .map(only)
    }
}
