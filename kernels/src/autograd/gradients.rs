//! A tensor's part in differentiation.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::tensor::{DType, Tensor};

use super::node::{Edge, Node};

/// What a tensor knows about gradients.
#[derive(Default)]
pub(crate) struct Gradients(Mutex<State>);

#[derive(Default)]
struct State {
    /// Wanted by the user; only for tensors that no recorded operation made.
    leaf: bool,
    /// The operation that made it.
    node: Option<Arc<Node>>,
    gradient: Option<Tensor>,
}

impl Gradients {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_node(&self, node: Node) {
        self.state().node = Some(Arc::new(node));
    }

    /// Where a gradient of the tensor goes.
    pub(crate) fn edge(&self, tensor: &Tensor) -> Edge {
        let state = self.state();
        match &state.node {
            Some(node) => Edge::Node(Arc::clone(node)),
            None if state.leaf => Edge::Leaf(tensor.clone()),
            None => Edge::Nowhere,
        }
    }

    /// The first gradient becomes the leaf's own when nobody else holds it; later ones are added
    /// to it. Under the lock, so that passes on several threads add up.
    pub(super) fn accumulate(&self, gradient: Tensor) -> Result<()> {
        let mut state = self.state();
        if let Some(sum) = &state.gradient {
            return sum.add_(&gradient);
        }
        let own = if gradient.is_sole_owner() && gradient.is_contiguous() {
            gradient
        } else {
            gradient.copied()?
        };
        state.gradient = Some(own);
        Ok(())
    }
}

impl fmt::Debug for Gradients {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        out.debug_struct("Gradients")
            .field("leaf", &state.leaf)
            .field("recorded", &state.node.is_some())
            .finish_non_exhaustive()
    }
}

impl Tensor {
    /// Whether gradients flow to or through it.
    #[must_use]
    pub fn requires_grad(&self) -> bool {
        let state = self.gradients().state();
        state.leaf || state.node.is_some()
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
        self.expect_dtype("requires_grad_", DType::F32)?;
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
            state.leaf = wanted;
        }
        Ok(self)
    }

    /// The gradient that backward passes have left here.
    #[must_use]
    pub fn grad(&self) -> Option<Self> {
        self.gradients().state().gradient.clone()
    }

    /// Replaces the gradient.
    ///
    /// # Errors
    ///
    /// When its shape, type or device is not this tensor's.
    pub fn set_grad(&self, gradient: Self) -> Result<()> {
        gradient.expect_dtype("set_grad", DType::F32)?;
        self.expect_same_device("set_grad", &gradient)?;
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
        self.replace_grad(Some(gradient));
        Ok(())
    }

    /// Drops the gradient, so that its memory is free until the next backward pass.
    pub fn clear_grad(&self) {
        self.replace_grad(None);
    }

    fn replace_grad(&self, gradient: Option<Self>) {
        // The old one is dropped after the lock is free again.
        let _old = std::mem::replace(&mut self.gradients().state().gradient, gradient);
    }

    /// The same storage as a tensor of its own, outside the graph.
    #[must_use]
    pub fn detach(&self) -> Self {
        self.view(self.layout())
    }

    /// Leaves the graph in place: the tensor becomes a leaf that requires no gradient.
    pub fn detach_(&self) {
        let _node = {
            let mut state = self.gradients().state();
            state.leaf = false;
            state.node.take()
        };
    }
}
