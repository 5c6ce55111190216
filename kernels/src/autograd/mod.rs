//! Gradients by reverse-mode differentiation.
//!
//! An operation on tensors that require gradients adds a node to its result. The node holds the
//! data that the operation's rule needs, and edges to the nodes of its operands but none to the
//! result, so a graph has no cycles and is dropped with its last result.
//! [`Tensor::backward`](crate::Tensor::backward) walks the graph once and drops each node's saved
//! arrays as soon as the node has run.

mod backward;
mod leaf;
mod mode;
mod node;
pub(crate) mod rules;
mod saved;

pub(crate) use backward::backward;
pub(crate) use leaf::Leaf;
pub use mode::{inference_mode, no_grad};
pub(crate) use mode::{is_inference, is_recording};
pub(crate) use node::{Edge, MAX_OPERANDS, Node, Rule};
pub(crate) use saved::Saved;
