//! Single layers: used without gradients, released, trained.

use crate::autograd::no_grad;
use crate::error::Result;
use crate::memory;
use crate::nn::{Linear, Module};
use crate::optim::{Adam, Optimizer, Sgd};
use crate::tensor::{HostTensor, Tensor};

use super::Steps;

pub(super) fn linear_no_grad(steps: &mut Steps<'_>) -> Result<()> {
    let device = steps.device();
    let model = Linear::new(1000, 10, device)?;
    let input = HostTensor::randn([1, 1000])?.to(device)?;
    steps.read("setup");
    let output = no_grad(|| model.forward(&input))?;
    steps.read("out");
    drop((model, input, output));
    memory::empty_cache(device)?;
    steps.read("empty_cache");
    Ok(())
}

pub(super) fn linear_adam_release(steps: &mut Steps<'_>) -> Result<()> {
    let device = steps.device();
    let model = Linear::new(1000, 1000, device)?;
    let optimizer = Adam::new(model.parameters(), 1e-3)?;
    let tensor = Tensor::randn([1000, 1000], device)?;
    steps.read("before");
    drop((model, optimizer, tensor));
    steps.read("del");
    memory::empty_cache(device)?;
    steps.read("empty_cache");
    Ok(())
}

pub(super) fn training_loop_sgd(steps: &mut Steps<'_>) -> Result<()> {
    let device = steps.device();
    let model = Linear::new(10, 10, device)?;
    let mut optimizer = Sgd::new(model.parameters(), 0.01)?;
    steps.read("setup");
    // They outlive each round, as a Python loop's variables do.
    let mut last = None;
    for epoch in 0..2 {
        for round in 0..100 {
            let data = HostTensor::randn([1, 10])?.to(device)?;
            let output = model.forward(&data)?;
            let loss = output.mse_loss(&output.randn_like()?)?;
            optimizer.zero_grad();
            loss.backward()?;
            optimizer.step()?;
            loss.item()?;
            last = Some((output, loss));
            if [0, 1, 99].contains(&round) {
                steps.read(format!("epoch{epoch}_batch{round}"));
            }
            drop(data);
            memory::empty_cache(device)?;
        }
    }
    drop(last);
    steps.read("loop_end");
    drop((model, optimizer));
    memory::empty_cache(device)?;
    steps.read("empty_cache");
    Ok(())
}
