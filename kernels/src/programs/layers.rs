//! Single layers that are used without gradients, released or trained.

use crate::autograd::no_grad;
use crate::error::Result;
use crate::memory;
use crate::nn::{Linear, Module};
use crate::optim::{Adam, Optimizer, Sgd};
use crate::tensor::{HostTensor, Tensor};

use super::program::Steps;

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
    // Like the variables of a Python loop, these hold the last round's values until the next round.
    let (mut last_output, mut last_loss) = (None, None);
    for epoch in 0..2 {
        for round in 0..100 {
            let data = HostTensor::randn([1, 10])?.to(device)?;
            let output = &*last_output.insert(model.forward(&data)?);
            let loss = &*last_loss.insert(output.mse_loss(&output.randn_like()?)?);
            optimizer.zero_grad();
            loss.backward()?;
            optimizer.step()?;
            loss.item()?;
            if [0, 1, 99].contains(&round) {
                steps.read(format!("epoch{epoch}_batch{round}"));
            }
            drop(data);
            memory::empty_cache(device)?;
        }
    }
    drop((last_output, last_loss));
    steps.read("loop_end");
    drop((model, optimizer));
    memory::empty_cache(device)?;
    steps.read("empty_cache");
    Ok(())
}
