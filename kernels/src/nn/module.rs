//! The interface of every module of a network.

use crate::error::Result;
use crate::tensor::Tensor;

/// A module of a network.
pub trait Module {
    /// Computes the output for an input.
    ///
    /// # Errors
    ///
    /// Returns an error if the shape, type or device of the input does not match, or the device
    /// is out of memory.
    fn forward(&self, input: &Tensor) -> Result<Tensor>;

    /// Returns handles to the module's trainable parameters, in the order of its submodules.
    fn parameters(&self) -> Vec<Tensor>;
}
