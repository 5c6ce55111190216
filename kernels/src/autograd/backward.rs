//! The backward pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::tensor::Tensor;

use super::mode::no_grad;
use super::node::{Edge, Node};

impl Tensor {
    /// Adds the gradient of this scalar to every leaf that it was computed from.
    ///
    /// Each recorded operation lets its saved tensors go once it has been passed.
    ///
    /// # Errors
    ///
    /// When it is no scalar, needs no gradient, was passed before, or a saved tensor was changed.
    pub fn backward(&self) -> Result<()> {
        run(self, false)
    }

    /// As [`Self::backward`], and keeps the graph with everything it saved for another pass.
    ///
    /// # Errors
    ///
    /// As [`Self::backward`].
    pub fn backward_retaining(&self) -> Result<()> {
        run(self, true)
    }
}

/// Operations whose result has a gradient, by sequence number.
type Pending = BTreeMap<u64, (Arc<Node>, Tensor)>;

fn run(root: &Tensor, keep: bool) -> Result<()> {
    if root.numel() != 1 {
        return Err(Error::Gradient {
            detail: format!(
                "begins at a tensor with one element, not at shape {:?}; reduce it with sum or \
                 mean",
                root.shape()
            ),
        });
    }
    if !root.requires_grad() {
        return Err(Error::Gradient {
            detail: "the tensor does not depend on any that requires gradients".into(),
        });
    }
    no_grad(|| {
        let mut pending = Pending::new();
        let start = Tensor::full(root.shape(), 1.0, root.device())?;
        pass(&root.gradients().edge(root), start, &mut pending)?;
        // An operation's users have larger numbers than itself: the largest one's gradient is whole.
        while let Some((_, (node, gradient))) = pending.pop_last() {
            let needs = node
                .edges()
                .each_ref()
                .map(|edge| !matches!(edge, Edge::Nowhere));
            let gradients = node.rule(keep)?.apply(gradient, needs)?;
            for (edge, gradient) in node.edges().iter().zip(gradients) {
                if let Some(gradient) = gradient {
                    pass(edge, gradient, &mut pending)?;
                }
            }
        }
        Ok(())
    })
}

fn pass(edge: &Edge, gradient: Tensor, pending: &mut Pending) -> Result<()> {
    match edge {
        Edge::Nowhere => Ok(()),
        Edge::Leaf(leaf) => leaf.gradients().accumulate(gradient),
        Edge::Node(node) => {
            let sum = match pending.remove(&node.sequence()) {
                None => gradient,
                Some((_, sum)) if sum.is_sole_owner() && sum.is_contiguous() => {
                    sum.add_(&gradient)?;
                    sum
                }
                Some((_, sum)) => sum.add(&gradient)?,
            };
            pending.insert(node.sequence(), (Arc::clone(node), sum));
            Ok(())
        }
    }
}
