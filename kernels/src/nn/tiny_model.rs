//! A small network that stands in for larger ones.

use crate::device::Device;
use crate::error::Result;
use crate::tensor::Tensor;

use super::activation::Softmax;
use super::linear::Linear;
use super::module::Module;

/// A network with 100 inputs, 200 rectified units, 10 outputs and a softmax over the batch.
///
/// It is the network of PyTorch's introduction, "Building models with PyTorch"
/// (<https://docs.pytorch.org/tutorials/beginner/introyt/modelsyt_tutorial.html>). There, too, the
/// softmax runs over dimension 0.
#[derive(Clone, Debug)]
pub struct TinyModel {
    hidden: Linear,
    output: Linear,
    softmax: Softmax,
}

impl TinyModel {
    /// The number of inputs per row.
    pub const INPUTS: usize = 100;
    /// The number of outputs per row.
    pub const OUTPUTS: usize = 10;

    /// Creates a network with parameters drawn from the thread's seed; see [`crate::manual_seed`].
    ///
    /// # Errors
    ///
    /// Returns an error if the device is out of memory.
    pub fn new(device: &Device) -> Result<Self> {
        const HIDDEN: usize = 200;
        Ok(Self {
            hidden: Linear::new(Self::INPUTS, HIDDEN, device)?,
            output: Linear::new(HIDDEN, Self::OUTPUTS, device)?,
            softmax: Softmax { dim: 0 },
        })
    }
}

impl Module for TinyModel {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let hidden = self.hidden.forward_relu(input)?;
        let scores = self.output.forward(&hidden)?;
        drop(hidden);
        self.softmax.forward(&scores)
    }

    fn parameters(&self) -> Vec<Tensor> {
        let mut parameters = self.hidden.parameters();
        parameters.extend(self.output.parameters());
        parameters
    }
}
