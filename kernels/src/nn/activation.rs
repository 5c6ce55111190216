//! Modules without parameters.

use crate::error::Result;
use crate::tensor::Tensor;

use super::module::Module;

/// See [`Tensor::relu`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ReLU;

impl Module for ReLU {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.relu()
    }

    fn parameters(&self) -> Vec<Tensor> {
        Vec::new()
    }
}

/// See [`Tensor::softmax`].
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    /// The dimension whose elements sum to 1.
    pub dim: usize,
}

impl Module for Softmax {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.softmax(self.dim)
    }

    fn parameters(&self) -> Vec<Tensor> {
        Vec::new()
    }
}
