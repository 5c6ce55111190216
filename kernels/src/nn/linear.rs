//! A linear layer.

use crate::device::Device;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

use super::init;
use super::module::Module;

/// Computes `x · weightᵀ + bias`.
#[derive(Clone, Debug)]
pub struct Linear {
    /// The weight, of shape `[outputs, inputs]`.
    pub weight: Tensor,
    /// The bias, of shape `[outputs]`.
    pub bias: Tensor,
}

impl Linear {
    /// Creates a layer whose weight and bias are drawn uniformly from within `±1/√inputs`, as in
    /// PyTorch (<https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html>).
    ///
    /// # Errors
    ///
    /// Returns an error if there are no inputs or the device is out of memory.
    pub fn new(inputs: usize, outputs: usize, device: &Device) -> Result<Self> {
        if inputs == 0 {
            return Err(Error::Argument {
                operation: "Linear::new",
                detail: "a layer needs at least one input, because its weights are drawn from the range ±1/√inputs".into(),
            });
        }
        let bound = 1.0 / (inputs as f32).sqrt();
        Ok(Self {
            weight: init::uniform(&[outputs, inputs], bound, device)?,
            bias: init::uniform(&[outputs], bound, device)?,
        })
    }

    /// Computes [`Module::forward`] followed by a rectifier, in one operation.
    ///
    /// # Errors
    ///
    /// See [`Module::forward`].
    pub fn forward_relu(&self, input: &Tensor) -> Result<Tensor> {
        input.linear_relu(&self.weight, &self.bias)
    }
}

impl Module for Linear {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.linear(&self.weight, &self.bias)
    }

    fn parameters(&self) -> Vec<Tensor> {
        vec![self.weight.clone(), self.bias.clone()]
    }
}
