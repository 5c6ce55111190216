//! A small project that uses candle on a GPU. As in any other project, nothing here depends on the
//! checks.

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{
    Activation, AdamW, Linear, Module, Optimizer, Sequential, VarBuilder, VarMap, linear, loss, seq,
};

/// Creates a model with two layers.
fn model(builder: VarBuilder) -> Result<Sequential> {
    let first: Linear = linear(32, 64, builder.pp("first"))?;
    let second = linear(64, 8, builder.pp("second"))?;
    Ok(seq().add(first).add(Activation::Relu).add(second))
}

/// A model, its optimiser, and random data to train on.
pub struct Training {
    model: Sequential,
    optimizer: AdamW,
    input: Tensor,
    target: Tensor,
}

impl Training {
    /// Creates the model, its optimiser and the data on `device`.
    pub fn new(device: &Device) -> Result<Self> {
        let variables = VarMap::new();
        let builder = VarBuilder::from_varmap(&variables, DType::F32, device);
        Ok(Self {
            model: model(builder)?,
            optimizer: AdamW::new_lr(variables.all_vars(), 1e-2)?,
            input: Tensor::randn(0f32, 1., (128, 32), device)?,
            target: Tensor::randn(0f32, 1., (128, 8), device)?,
        })
    }

    /// Runs the forward pass, the backward pass and the update. The returned loss is still on the
    /// device, and keeps everything that it was computed from.
    pub fn step(&mut self) -> Result<Tensor> {
        let output = self.model.forward(&self.input)?;
        let loss = loss::mse(&output, &self.target)?; // leak: loss
        self.optimizer.backward_step(&loss)?;
        Ok(loss)
    }
}

/// Trains a new model. Returns the loss of each step.
pub fn train(device: &Device, steps: usize) -> Result<Vec<f32>> {
    let mut training = Training::new(device)?;
    (0..steps).map(|_| training.step()?.to_scalar()).collect()
}
