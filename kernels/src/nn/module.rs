//! What every part of a network can do.

use crate::error::Result;
use crate::tensor::Tensor;

/// A part of a network.
pub trait Module {
    /// Its output for an input.
    ///
    /// # Errors
    ///
    /// When the input's shape, type or device does not fit, or the device has no room.
    fn forward(&self, input: &Tensor) -> Result<Tensor>;

    /// Handles of the parameters that it learns, in the order of its parts.
    fn parameters(&self) -> Vec<Tensor>;
}
