//! The derivative of each operation, named after it.

mod linear;
mod loss;
mod pointwise;
mod reduce;
mod softmax;
mod view;

pub(crate) use linear::{Linear, Matmul};
pub(crate) use loss::{CrossEntropy, Mse};
pub(crate) use pointwise::{Product, Relu, Scale, Sin, Sum};
pub(crate) use reduce::{Total, TotalOf};
pub(crate) use softmax::Softmax;
pub(crate) use view::{Broadcast, Narrow, Reshape, Transpose};

use crate::tensor::Tensor;

use super::node::{MAX_OPERANDS, OperandGradients, Rule};

/// The gradient of the only operand.
fn only(gradient: Tensor) -> OperandGradients {
    [Some(gradient), None, None]
}
