//! A tensor's part in differentiation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Tensor;
use crate::array::Array;
use crate::autograd::{Edge, Leaf, Node, backward};
use crate::compute::DType;
use crate::error::{Error, Result};

/// What a tensor knows about gradients.
#[derive(Default)]
pub(super) struct Gradients(Mutex<GradientState>);

#[derive(Default)]
struct GradientState {
    /// Whether the user wants a gradient; only for tensors that no recorded operation made.
    wanted: bool,
    /// The operation that made it.
    node: Option<Arc<Node>>,
    /// Where its gradient is; made when it is first wanted or set.
    leaf: Option<Arc<Leaf>>,
}

impl Gradients {
    /// Of the result of a recorded operation.
    pub(super) fn recorded(node: Node) -> Self {
        Self(Mutex::new(GradientState {
            node: Some(Arc::new(node)),
            ..GradientState::default()
        }))
    }

    fn state(&self) -> MutexGuard<'_, GradientState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a gradient of the tensor goes.
    pub(super) fn edge(&self) -> Edge {
        let state = self.state();
        match (&state.node, &state.leaf) {
            (Some(node), _) => Edge::Node(Arc::clone(node)),
            (None, Some(leaf)) if state.wanted => Edge::Leaf(Arc::clone(leaf)),
            (None, _) => Edge::Nowhere,
        }
    }

    /// The place of the gradient, if there is one yet.
    fn leaf(&self) -> Option<Arc<Leaf>> {
        self.state().leaf.clone()
    }
}

impl GradientState {
    fn leaf_of(&mut self, content: &Array) -> &Arc<Leaf> {
        let make = || Arc::new(Leaf::new(content.clone()));
        self.leaf.get_or_insert_with(make)
    }
}

impl Tensor {
    /// Whether gradients flow to or through it.
    #[must_use]
    pub fn requires_grad(&self) -> bool {
        let state = self.gradients().state();
        state.wanted || state.node.is_some()
    }

    /// Whether no recorded operation made it.
    #[must_use]
    pub fn is_leaf(&self) -> bool {
        self.gradients().state().node.is_none()
    }

    /// Says whether [`Self::backward`] shall leave a gradient here.
    ///
    /// # Errors
    ///
    /// When it is not of `f32`, was made by a recorded operation or inside inference mode.
    pub fn requires_grad_(self, wanted: bool) -> Result<Self> {
        self.array().expect_dtype("requires_grad_", DType::F32)?;
        if wanted && self.is_inference() {
            return Err(Error::Gradient {
                detail: "a tensor made inside inference_mode cannot require gradients; \
                         make it outside"
                    .into(),
            });
        }
        {
            let mut state = self.gradients().state();
            if state.node.is_some() {
                return Err(Error::Gradient {
                    detail: "requires_grad_ is for leaves, but a recorded operation made this \
                             tensor; detach it first"
                        .into(),
                });
            }
            state.wanted = wanted;
            if wanted {
                state.leaf_of(self.array());
            }
        }
        Ok(self)
    }

    /// Adds the gradient of this scalar to every leaf that it was computed from.
    ///
    /// Each recorded operation lets its saved tensors go once it has been passed.
    ///
    /// # Errors
    ///
    /// When it is no scalar, needs no gradient, was passed before, or a saved tensor was changed.
    pub fn backward(&self) -> Result<()> {
        self.backward_with(false)
    }

    /// As [`Self::backward`], and keeps the graph with everything it saved for another pass.
    ///
    /// # Errors
    ///
    /// As [`Self::backward`].
    pub fn backward_retaining(&self) -> Result<()> {
        self.backward_with(true)
    }

    fn backward_with(&self, keep: bool) -> Result<()> {
        if self.numel() != 1 {
            return Err(Error::Gradient {
                detail: format!(
                    "begins at a tensor with one element, not at shape {:?}; reduce it with sum or \
                     mean",
                    self.shape()
                ),
            });
        }
        if !self.requires_grad() {
            return Err(Error::Gradient {
                detail: "the tensor does not depend on any that requires gradients".into(),
            });
        }
        let start = Array::full(self.shape(), 1.0, self.device())?;
        backward(&self.gradients().edge(), start, keep)
    }

    /// The gradient that backward passes have left here.
    #[must_use]
    pub fn grad(&self) -> Option<Self> {
        self.gradient_array().map(Self::new)
    }

    pub(crate) fn gradient_array(&self) -> Option<Array> {
        self.gradients().leaf()?.gradient()
    }

    /// Replaces the gradient.
    ///
    /// # Errors
    ///
    /// When its shape, type or device is not this tensor's.
    pub fn set_grad(&self, gradient: Self) -> Result<()> {
        let gradient = gradient.array().clone();
        gradient.expect_dtype("set_grad", DType::F32)?;
        self.array().expect_same_device("set_grad", &gradient)?;
        if gradient.shape() != self.shape() {
            return Err(Error::Shape {
                operation: "set_grad",
                detail: format!(
                    "a gradient of shape {:?} is none of a tensor of shape {:?}",
                    gradient.shape(),
                    self.shape()
                ),
            });
        }
        let leaf = Arc::clone(self.gradients().state().leaf_of(self.array()));
        leaf.replace_gradient(Some(gradient));
        Ok(())
    }

    /// Drops the gradient, so that its memory is free until the next backward pass.
    pub fn clear_grad(&self) {
        if let Some(leaf) = self.gradients().leaf() {
            leaf.replace_gradient(None);
        }
    }

    /// The same storage as a tensor of its own, outside the graph.
    #[must_use]
    pub fn detach(&self) -> Self {
        Self::new(self.array().clone())
    }

    /// Leaves the graph in place: the tensor becomes a leaf that requires no gradient.
    pub fn detach_(&self) {
        let _node = {
            let mut state = self.gradients().state();
            state.wanted = false;
            state.node.take()
        };
    }
}
