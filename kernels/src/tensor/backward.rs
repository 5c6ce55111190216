//! A tensor's part in differentiation.

use super::Tensor;
use crate::array::Array;
use crate::autograd::backward;
use crate::compute::DType;
use crate::error::{Error, Result};

impl Tensor {
    /// Whether gradients flow to or through this tensor.
    #[must_use]
    pub fn requires_grad(&self) -> bool {
        self.gradients().is_required()
    }

    /// Whether this tensor was not made by a recorded operation.
    #[must_use]
    pub fn is_leaf(&self) -> bool {
        !self.gradients().is_recorded()
    }

    /// Sets whether [`Self::backward`] stores a gradient for this tensor.
    ///
    /// # Errors
    ///
    /// Returns an error if the element type is not `f32`, if the tensor was made by a recorded
    /// operation, or if `wanted` is set and the tensor was made in inference mode.
    pub fn requires_grad_(self, wanted: bool) -> Result<Self> {
        self.array().expect_dtype("requires_grad_", DType::F32)?;
        if wanted && self.is_inference() {
            return Err(Error::Gradient {
                detail: "a tensor made inside inference_mode cannot require gradients; \
                         make it outside"
                    .into(),
            });
        }
        self.gradients().set_wanted(wanted, self.array())?;
        Ok(self)
    }

    /// Adds the gradient of this scalar to every leaf that it was computed from.
    ///
    /// Each recorded operation drops its saved tensors once the pass has reached it.
    ///
    /// # Errors
    ///
    /// Returns an error if the tensor is not a scalar or needs no gradient, if an earlier pass has
    /// used the graph, or if a saved tensor was changed.
    pub fn backward(&self) -> Result<()> {
        self.backward_with(false)
    }

    /// Performs [`Self::backward`], but keeps the graph, with everything that it saved, for another
    /// pass.
    ///
    /// # Errors
    ///
    /// See [`Self::backward`].
    pub fn backward_retaining(&self) -> Result<()> {
        self.backward_with(true)
    }

    fn backward_with(&self, keep: bool) -> Result<()> {
        if self.numel() != 1 {
            return Err(Error::Gradient {
                detail: format!(
                    "the pass must begin at a tensor with one element, but this one has the shape \
                     {:?}; reduce it with sum or mean",
                    self.shape()
                ),
            });
        }
        if !self.requires_grad() {
            return Err(Error::Gradient {
                detail: "the tensor does not depend on any tensor that requires gradients".into(),
            });
        }
        let start = Array::full(self.shape(), 1.0, self.device())?;
        backward(&self.gradients().edge(), start, keep)
    }

    /// The gradient that backward passes have accumulated for this tensor.
    #[must_use]
    pub fn grad(&self) -> Option<Self> {
        self.gradient_array().map(Self::new)
    }

    pub(crate) fn gradient_array(&self) -> Option<Array> {
        self.gradients().gradient()
    }

    /// Replaces the gradient.
    ///
    /// # Errors
    ///
    /// Returns an error if the shape, type or device of the gradient differs from this tensor's, or
    /// if the type is not `f32`.
    pub fn set_grad(&self, gradient: Self) -> Result<()> {
        let gradient = gradient.array().clone();
        for array in [self.array(), &gradient] {
            array.expect_dtype("set_grad", DType::F32)?;
        }
        self.array().expect_same_device("set_grad", &gradient)?;
        if gradient.shape() != self.shape() {
            return Err(Error::Shape {
                operation: "set_grad",
                detail: format!(
                    "a gradient of shape {:?} does not fit a tensor of shape {:?}",
                    gradient.shape(),
                    self.shape()
                ),
            });
        }
        self.gradients().set_gradient(gradient, self.array());
        Ok(())
    }

    /// Drops the gradient, so that its memory is free until the next backward pass.
    pub fn clear_grad(&self) {
        self.gradients().clear_gradient();
    }

    /// Returns a separate tensor with the same storage, outside the graph.
    #[must_use]
    pub fn detach(&self) -> Self {
        Self::new(self.array().clone())
    }

    /// Removes this tensor itself from the graph: it becomes a leaf that requires no gradient.
    pub fn detach_(&self) {
        self.gradients().detach();
    }
}
