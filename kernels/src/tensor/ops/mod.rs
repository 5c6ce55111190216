//! What can be computed from tensors.

mod in_place;
mod linear;
mod loss;
mod pointwise;
mod reduce;
mod softmax;

pub(crate) use pointwise::binary;
pub(crate) use reduce::sum_to;
