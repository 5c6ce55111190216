//! What every part of a network can do.

use crate::error::Result;
use crate::tensor::Tensor;

/// A part of a network.
pub trait Module {
    /// What it makes of an input.
    ///
    /// # Errors
    ///
    /// When the input's shape, type or device does not fit, or the device has no room.
    fn forward(&self, input: &Tensor) -> Result<Tensor>;

    /// Handles of what it learns, in the order of its parts.
    fn parameters(&self) -> Vec<Tensor>;
}
