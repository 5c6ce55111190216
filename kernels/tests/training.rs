//! Training as a user writes it.

use gpu_leak_kernels::nn::Module;
use gpu_leak_kernels::optim::{Adam, Optimizer, Sgd};
use gpu_leak_kernels::{Device, HostTensor, Result, TinyModel, inference_mode, manual_seed};

#[test]
fn the_tiny_model_gives_columns_that_sum_to_one() -> Result<()> {
    let device = Device::embedded()?;
    let model = TinyModel::new(&device)?;
    let batch = HostTensor::rand([64, 100])?.to(&device)?;
    let out = inference_mode(|| model.forward(&batch))?;
    assert_eq!(out.shape(), [64, 10]);
    for sum in out.sum_dim(0)?.to_vec::<f32>()? {
        assert!((sum - 1.0).abs() < 1e-5);
    }
    assert!(!out.requires_grad());
    Ok(())
}

fn losses(
    steps: usize,
    make: impl Fn(&TinyModel) -> Result<Box<dyn Optimizer>>,
) -> Result<Vec<f32>> {
    manual_seed(7);
    let device = Device::embedded()?;
    let model = TinyModel::new(&device)?;
    let inputs = HostTensor::rand([64, 100])?.to(&device)?;
    let targets = HostTensor::rand([64, 10])?.to(&device)?;
    let mut optimizer = make(&model)?;
    let mut losses = Vec::new();
    for _ in 0..steps {
        optimizer.zero_grad();
        let loss = model.forward(&inputs)?.mse_loss(&targets)?;
        loss.backward()?;
        optimizer.step()?;
        losses.push(loss.item()?);
    }
    Ok(losses)
}

#[test]
fn two_hundred_steps_of_either_optimiser_lower_the_loss() -> Result<()> {
    let sgd = losses(200, |model| {
        Ok(Box::new(Sgd::new(model.parameters(), 0.01)?.momentum(0.9)))
    })?;
    assert!(sgd[199] < sgd[0], "{} then {}", sgd[0], sgd[199]);
    let adam = losses(200, |model| {
        Ok(Box::new(Adam::new(model.parameters(), 1e-3)?))
    })?;
    assert!(adam[199] < adam[0], "{} then {}", adam[0], adam[199]);
    Ok(())
}
