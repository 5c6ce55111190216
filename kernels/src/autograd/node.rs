//! The graph, which records the operands of each computed tensor.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::leaf::Leaf;
use crate::array::Array;
use crate::error::{Error, Result};

/// The maximum number of operands of a differentiable operation.
pub(crate) const MAX_OPERANDS: usize = 3;

/// For each operand in order, whether it needs a gradient.
pub(crate) type Needs = [bool; MAX_OPERANDS];

/// For each operand in order, its gradient; `None` if it needs none.
pub(crate) type OperandGradients = [Option<Array>; MAX_OPERANDS];

/// Returns the operand gradients of an operation with only one operand.
pub(crate) fn only(gradient: Array) -> OperandGradients {
    [Some(gradient), None, None]
}

/// The way in which an operation turns the gradient of its result into the gradients of its
/// operands.
pub(crate) trait Rule: Duplicate + Send + Sync {
    /// The name of the operation in messages.
    fn name(&self) -> &'static str;

    /// Runs the rule and drops its saved tensors no later than when it returns.
    fn apply(self: Box<Self>, gradient: Array, needs: Needs) -> Result<OperandGradients>;
}

/// Clones a rule behind a `Box`.
pub(crate) trait Duplicate {
    /// Returns a copy, so that the graph can keep the original.
    fn duplicate(&self) -> Box<dyn Rule>;
}

impl<R: Rule + Clone + 'static> Duplicate for R {
    fn duplicate(&self) -> Box<dyn Rule> {
        Box::new(self.clone())
    }
}

/// The destination of an operand's gradient.
pub(crate) enum Edge {
    /// The operand needs no gradient.
    Nowhere,
    /// The operation that computed the operand.
    Node(Arc<Node>),
    /// The gradient of a leaf.
    Leaf(Arc<Leaf>),
}

/// One recorded operation.
pub(crate) struct Node {
    name: &'static str,
    /// Increases with each node, so an operation has a larger number than the operations that it
    /// depends on.
    sequence: u64,
    rule: Mutex<Option<Box<dyn Rule>>>,
    edges: [Edge; MAX_OPERANDS],
}

impl Node {
    pub(crate) fn new(rule: impl Rule + 'static, edges: [Edge; MAX_OPERANDS]) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            name: rule.name(),
            sequence: NEXT.fetch_add(1, Ordering::Relaxed),
            rule: Mutex::new(Some(Box::new(rule))),
            edges,
        }
    }

    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(super) fn edges(&self) -> &[Edge; MAX_OPERANDS] {
        &self.edges
    }

    /// Returns the rule itself or, with `keep`, a duplicate of it.
    pub(super) fn rule(&self, keep: bool) -> Result<Box<dyn Rule>> {
        let mut rule = self.rule.lock().unwrap_or_else(PoisonError::into_inner);
        let found = if keep {
            rule.as_ref().map(|rule| rule.duplicate())
        } else {
            rule.take()
        };
        found.ok_or_else(|| Error::Gradient {
            detail: format!(
                "an earlier pass already went through `{}` and dropped the tensors saved there; to \
                 run two passes, call backward_retaining for the first",
                self.name
            ),
        })
    }
}

/// Drops a graph without recursion, because it may be deeper than the stack allows.
impl Drop for Node {
    fn drop(&mut self) {
        let mut pending = Vec::new();
        take_nodes(&mut self.edges, &mut pending);
        while let Some(node) = pending.pop() {
            // Only the last holder of a node drops the nodes below it.
            if let Some(mut node) = Arc::into_inner(node) {
                take_nodes(&mut node.edges, &mut pending);
            }
        }
    }
}

fn take_nodes(edges: &mut [Edge], into: &mut Vec<Arc<Node>>) {
    for edge in edges {
        if let Edge::Node(node) = std::mem::replace(edge, Edge::Nowhere) {
            into.push(node);
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Node({} #{})", self.name, self.sequence)
    }
}
