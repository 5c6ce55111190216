//! The data that a tensor keeps about gradients.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::array::Array;
use crate::autograd::{Edge, Leaf, Node};
use crate::error::{Error, Result};

/// A tensor's place in an autograd graph, and its own gradient.
#[derive(Default)]
pub(super) struct Gradients(Mutex<GradientState>);

#[derive(Default)]
struct GradientState {
    /// Whether the user wants a gradient. Always false if a recorded operation made the tensor.
    wanted: bool,
    /// The operation that made the tensor.
    node: Option<Arc<Node>>,
    /// The leaf that holds its gradient; created when the gradient is first needed or set.
    leaf: Option<Arc<Leaf>>,
}

impl Gradients {
    /// Creates the data for the result of a recorded operation.
    pub(super) fn recorded(node: Node) -> Self {
        Self(Mutex::new(GradientState {
            node: Some(Arc::new(node)),
            ..GradientState::default()
        }))
    }

    fn state(&self) -> MutexGuard<'_, GradientState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The destination of a gradient of the tensor.
    pub(super) fn edge(&self) -> Edge {
        let state = self.state();
        match (&state.node, &state.leaf) {
            (Some(node), _) => Edge::Node(Arc::clone(node)),
            (None, Some(leaf)) if state.wanted => Edge::Leaf(Arc::clone(leaf)),
            (None, _) => Edge::Nowhere,
        }
    }

    pub(super) fn is_required(&self) -> bool {
        let state = self.state();
        state.wanted || state.node.is_some()
    }

    pub(super) fn is_recorded(&self) -> bool {
        self.state().node.is_some()
    }

    /// Sets whether the user wants a gradient for this tensor, whose contents are `content`.
    ///
    /// # Errors
    ///
    /// Returns an error if a recorded operation made the tensor.
    pub(super) fn set_wanted(&self, wanted: bool, content: &Array) -> Result<()> {
        let mut state = self.state();
        if state.node.is_some() {
            return Err(Error::Gradient {
                detail: "requires_grad_ is for leaves, but a recorded operation made this \
                         tensor; detach it first"
                    .into(),
            });
        }
        state.wanted = wanted;
        if wanted {
            state.leaf_of(content);
        }
        Ok(())
    }

    /// Removes the tensor from the graph. Its gradient stays.
    pub(super) fn detach(&self) {
        // The node, with everything that only it holds, is dropped after the lock is released.
        let _node = {
            let mut state = self.state();
            state.wanted = false;
            state.node.take()
        };
    }

    pub(super) fn gradient(&self) -> Option<Array> {
        let leaf = self.state().leaf.clone();
        leaf?.gradient()
    }

    /// Replaces the gradient of the tensor, whose contents are `content`.
    pub(super) fn set_gradient(&self, gradient: Array, content: &Array) {
        let leaf = Arc::clone(self.state().leaf_of(content));
        leaf.replace_gradient(Some(gradient));
    }

    pub(super) fn clear_gradient(&self) {
        let leaf = self.state().leaf.clone();
        if let Some(leaf) = leaf {
            leaf.replace_gradient(None);
        }
    }
}

impl GradientState {
    fn leaf_of(&mut self, content: &Array) -> &Arc<Leaf> {
        let make = || Arc::new(Leaf::new(content.clone()));
        self.leaf.get_or_insert_with(make)
    }
}
