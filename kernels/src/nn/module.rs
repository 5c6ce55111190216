//! The interface of every module of a network.

use crate::error::Result;
use crate::tensor::Tensor;

/// A module of a network.
pub trait Module {
    /// Its output for an input.
    ///
    /// # Errors
    ///
    /// Returns an error if the shape, type or device of the input does not match, or the device
    /// is out of memory.
    fn forward(&self, input: &Tensor) -> Result<Tensor>;

    /// Handles to the parameters that it learns, in the order of its modules.
    fn parameters(&self) -> Vec<Tensor>;
}
