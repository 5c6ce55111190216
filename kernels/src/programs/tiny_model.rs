//! The small network, used and trained.

use crate::autograd::{inference_mode, no_grad};
use crate::device::Device;
use crate::error::Result;
use crate::memory;
use crate::nn::{Module, TinyModel};
use crate::optim::{Adam, Optimizer, Sgd};
use crate::tensor::{HostTensor, Tensor};

use super::program::Steps;

pub(super) fn inference(steps: &mut Steps<'_>) -> Result<()> {
    let device = steps.device();
    steps.read("start");
    let model = TinyModel::new(device)?;
    steps.read("model");
    let batch = HostTensor::rand([64, TinyModel::INPUTS])?.to(device)?;
    steps.read("batch");
    let output = inference_mode(|| model.forward(&batch))?;
    steps.read("output");
    drop((model, batch, output));
    steps.read("dropped");
    memory::empty_cache(device)?;
    steps.read("empty_cache");
    Ok(())
}

pub(super) fn training_adam(steps: &mut Steps<'_>) -> Result<()> {
    training(steps, |parameters| Adam::new(parameters, 1e-3))
}

pub(super) fn training_sgd(steps: &mut Steps<'_>) -> Result<()> {
    training(steps, |parameters| {
        Ok(Sgd::new(parameters, 0.01)?.momentum(0.9))
    })
}

fn training<O: Optimizer>(
    steps: &mut Steps<'_>,
    optimizer: impl FnOnce(Vec<Tensor>) -> Result<O>,
) -> Result<()> {
    let device = steps.device();
    let model = TinyModel::new(device)?;
    let (inputs, targets) = batch(device)?;
    let mut optimizer = optimizer(model.parameters())?;
    steps.read("setup");
    for round in 0..3 {
        optimizer.zero_grad();
        let output = model.forward(&inputs)?;
        steps.read(format!("forward{round}"));
        let loss = output.mse_loss(&targets)?;
        steps.read(format!("loss{round}"));
        loss.backward()?;
        steps.read(format!("backward{round}"));
        optimizer.step()?;
        steps.read(format!("step{round}"));
        drop((output, loss));
        steps.read(format!("end{round}"));
    }
    no_grad(|| {
        for parameter in model.parameters() {
            parameter.detach_();
        }
    });
    drop((model, optimizer));
    steps.read("del_model_opt");
    drop((inputs, targets));
    memory::empty_cache(device)?;
    steps.read("empty_cache");
    Ok(())
}

fn batch(device: &Device) -> Result<(Tensor, Tensor)> {
    Ok((
        Tensor::rand([64, TinyModel::INPUTS], device)?,
        Tensor::rand([64, TinyModel::OUTPUTS], device)?,
    ))
}
