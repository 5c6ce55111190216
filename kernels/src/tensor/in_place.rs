//! Changes to a tensor's own storage.

use super::Tensor;
use crate::autograd::is_recording;
use crate::error::{Error, Result};

impl Tensor {
    /// Adds another tensor, which broadcasts to this one's shape.
    ///
    /// # Errors
    ///
    /// Returns an error if shapes, types or devices do not match, if this tensor repeats its
    /// elements, as after [`Self::broadcast_to`], or if a graph is being recorded through it.
    pub fn add_(&self, other: &Self) -> Result<()> {
        self.expect_writable("add_", other.requires_grad())?;
        self.array().add_assign(other.array())
    }

    /// Copies the elements of another tensor of the same shape and type, which may be a view.
    ///
    /// # Errors
    ///
    /// Returns an error if shapes, types or devices do not match, if this tensor repeats its
    /// elements, as after [`Self::broadcast_to`], or if a graph is being recorded through it.
    pub fn copy_(&self, other: &Self) -> Result<()> {
        self.expect_writable("copy_", other.requires_grad())?;
        self.array().copy_from(other.array())
    }

    /// Sets every element to 0.
    ///
    /// # Errors
    ///
    /// Returns an error if this tensor is a view that does not cover its storage exactly, or a
    /// graph is being recorded through it.
    pub fn zero_(&self) -> Result<()> {
        self.expect_writable("zero_", false)?;
        self.array().set_to_zero()
    }

    fn expect_writable(&self, operation: &'static str, other_requires_grad: bool) -> Result<()> {
        if is_recording() && (self.requires_grad() || other_requires_grad) {
            return Err(Error::Gradient {
                detail: format!(
                    "{operation} would change a tensor of shape {:?} in a recorded graph; \
                     call it inside no_grad",
                    self.shape()
                ),
            });
        }
        Ok(())
    }
}
