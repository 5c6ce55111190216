//! Adds operations to the graph of gradients.

use super::Tensor;
use super::gradients::Gradients;
use crate::array::Array;
use crate::autograd::{Edge, MAX_OPERANDS, Node, Rule, Saved, is_recording};
use crate::error::{Error, Result};

/// Makes a tensor from an operation's result. The tensor is part of the graph if this thread
/// records and an operand requires gradients.
///
/// `rule` gets the result, and which operands need a gradient, so that it can save only the tensors
/// that it needs.
pub(super) fn record<const OPERANDS: usize, R: Rule + 'static>(
    result: Array,
    operands: [&Tensor; OPERANDS],
    rule: impl FnOnce(&Array, [bool; OPERANDS]) -> Result<R>,
) -> Result<Tensor> {
    const { assert!(OPERANDS <= MAX_OPERANDS) };

    if !is_recording() {
        return Ok(Tensor::new(result));
    }
    let mut edges = [const { Edge::Nowhere }; MAX_OPERANDS];
    for (edge, operand) in edges.iter_mut().zip(operands) {
        *edge = operand.gradients().edge();
    }
    let mut needs = [false; OPERANDS];
    for (need, edge) in needs.iter_mut().zip(&edges) {
        *need = !matches!(edge, Edge::Nowhere);
    }
    if !needs.contains(&true) {
        return Ok(Tensor::new(result));
    }
    let node = Node::new(rule(&result, needs)?, edges);
    Ok(Tensor::with_gradients(result, Gradients::recorded(node)))
}

impl Tensor {
    /// Saves the contents for an operation's rule.
    ///
    /// # Errors
    ///
    /// Returns an error if the tensor was made in inference mode.
    pub(super) fn saved(&self) -> Result<Saved> {
        if self.is_inference() {
            return Err(Error::Gradient {
                detail: format!(
                    "a tensor of shape {:?} made inside inference_mode cannot be saved for a \
                     gradient; make it outside, or use no_grad",
                    self.shape()
                ),
            });
        }
        Ok(Saved::of(self.array()))
    }
}
