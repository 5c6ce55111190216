//! The derivative rules of the operations. Each rule is named after its operation.

mod linear;
mod loss;
mod pointwise;
mod reduce;
mod softmax;
mod view;

pub(crate) use linear::{LinearBackward, MatmulBackward};
pub(crate) use loss::{CrossEntropyBackward, MseBackward};
pub(crate) use pointwise::{AddBackward, MulBackward, ReluBackward, ScaleBackward, SinBackward};
pub(crate) use reduce::{SumBackward, SumDimBackward};
pub(crate) use softmax::SoftmaxBackward;
pub(crate) use view::{BroadcastBackward, NarrowBackward, ReshapeBackward, TransposeBackward};
