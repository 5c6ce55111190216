//! Training, written as a user would write it.

use gpu_leak_kernels::nn::{Linear, Module, ReLU, Sequential, Softmax};
use gpu_leak_kernels::optim::{Adam, Optimizer, Sgd};
use gpu_leak_kernels::{
    Device, HostTensor, Result, Tensor, TinyModel, inference_mode, manual_seed,
};

use super::{assert_close, devices};

#[test]
fn the_tiny_model_gives_columns_that_sum_to_one() -> Result<()> {
    for device in devices() {
        let model = TinyModel::new(&device)?;
        let batch = Tensor::rand([64, 100], &device)?;
        let out = inference_mode(|| model.forward(&batch))?;
        assert_eq!(out.shape(), [64, 10]);
        assert_close("columns", &out.sum_dim(0)?.to_vec()?, &[1.0; 10], 1e-5);
        assert!(!out.requires_grad());
    }
    Ok(())
}

#[test]
fn the_same_parts_in_sequence_give_the_same_as_the_tiny_model() -> Result<()> {
    for device in devices() {
        manual_seed(1);
        let model = TinyModel::new(&device)?;
        manual_seed(1);
        let parts = Sequential::new()
            .then(Linear::new(100, 200, &device)?)
            .then(ReLU)
            .then(Linear::new(200, 10, &device)?)
            .then(Softmax { dim: 0 });
        let batch = Tensor::rand([8, 100], &device)?;
        let reference: Vec<f64> = model
            .forward(&batch)?
            .to_vec::<f32>()?
            .into_iter()
            .map(f64::from)
            .collect();
        assert_close("parts", &parts.forward(&batch)?.to_vec()?, &reference, 1e-6);
        assert_eq!(parts.parameters().len(), model.parameters().len());
    }
    Ok(())
}

fn losses<O: Optimizer>(
    device: &Device,
    make: impl Fn(Vec<Tensor>) -> Result<O>,
) -> Result<Vec<f64>> {
    manual_seed(7);
    let model = TinyModel::new(device)?;
    let inputs = HostTensor::rand([64, 100])?.to(device)?;
    let targets = HostTensor::rand([64, 10])?.to(device)?;
    let mut optimizer = make(model.parameters())?;
    let mut losses = Vec::new();
    for _ in 0..200 {
        optimizer.zero_grad();
        let loss = model.forward(&inputs)?.mse_loss(&targets)?;
        loss.backward()?;
        optimizer.step()?;
        losses.push(loss.item()?.into());
    }
    Ok(losses)
}

fn agree_and_fall(runs: &[Vec<f64>]) {
    for run in runs {
        assert!(run[199] < run[0], "{} then {}", run[0], run[199]);
        for (step, (found, reference)) in run.iter().zip(&runs[0]).enumerate() {
            let error = (found - reference).abs();
            assert!(
                error <= 1e-3 * reference,
                "{found} for {reference} at {step}"
            );
        }
    }
}

#[test]
fn two_hundred_steps_of_sgd_lower_the_loss_alike_on_every_device() -> Result<()> {
    let run = |device: &Device| {
        losses(device, |parameters| {
            Ok(Sgd::new(parameters, 0.01)?.momentum(0.9))
        })
    };
    agree_and_fall(&devices().iter().map(run).collect::<Result<Vec<_>>>()?);
    Ok(())
}

#[test]
fn two_hundred_steps_of_adam_lower_the_loss_alike_on_every_device() -> Result<()> {
    let run = |device: &Device| losses(device, |parameters| Adam::new(parameters, 1e-3));
    agree_and_fall(&devices().iter().map(run).collect::<Result<Vec<_>>>()?);
    Ok(())
}

#[test]
fn a_classifier_learns_classes_that_can_be_told_apart() -> Result<()> {
    for device in devices() {
        manual_seed(2);
        let model = Linear::new(2, 2, &device)?;
        let inputs = HostTensor::from_f32(vec![1.0, 0.0, 0.0, 1.0], [2, 2])?.to(&device)?;
        let classes = HostTensor::from_i64(vec![0, 1], [2])?.to(&device)?;
        let mut optimizer = Adam::new(model.parameters(), 0.1)?;
        for _ in 0..100 {
            optimizer.zero_grad();
            model
                .forward(&inputs)?
                .cross_entropy(&classes)?
                .backward()?;
            optimizer.step()?;
        }
        let loss = inference_mode(|| model.forward(&inputs)?.cross_entropy(&classes))?;
        assert!(loss.item()? < 0.05, "{:?}", loss.item());
    }
    Ok(())
}
