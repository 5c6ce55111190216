//! The backward pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::node::{Edge, Node};
use crate::array::Array;
use crate::compute::Binary;
use crate::error::Result;

/// Operations whose result has a gradient, by sequence number.
type PendingGradients = BTreeMap<u64, (Arc<Node>, Array)>;

/// Propagates a gradient from `root` to its leaves. With `keep`, another pass can use the graph.
///
/// # Errors
///
/// Returns an error if a pass has already used an operation, or if a saved tensor was changed.
pub(crate) fn backward(root: &Edge, gradient: Array, keep: bool) -> Result<()> {
    let mut pending = PendingGradients::new();
    pass(root, gradient, &mut pending)?;
    // A result is used only by operations with larger sequence numbers than the operation that made
    // it. So the gradient of the node with the largest number is complete.
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
}

fn pass(edge: &Edge, gradient: Array, pending: &mut PendingGradients) -> Result<()> {
    match edge {
        Edge::Nowhere => Ok(()),
        Edge::Leaf(leaf) => leaf.accumulate(gradient),
        Edge::Node(node) => {
            let sum = match pending.remove(&node.sequence()) {
                None => gradient,
                Some((_, sum)) if sum.is_sole_owner() && sum.is_contiguous() => {
                    sum.add_assign(&gradient)?;
                    sum
                }
                Some((_, sum)) => sum.binary("add", Binary::Add, &gradient)?,
            };
            pending.insert(node.sequence(), (Arc::clone(node), sum));
            Ok(())
        }
    }
}
