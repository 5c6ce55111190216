//! Tensors without gradients.

use crate::error::Result;
use crate::memory;
use crate::tensor::Tensor;

use super::program::Steps;

pub(super) fn sin_1024_cubed(steps: &mut Steps<'_>) -> Result<()> {
    let device = steps.device();
    let x = Tensor::randn([1024, 1024, 1024], device)?;
    steps.read("x");
    let y = x.sin()?;
    steps.read("y");
    drop((x, y));
    steps.read("del");
    memory::empty_cache(device)?;
    steps.read("empty_cache");
    Ok(())
}

pub(super) fn large_randn(steps: &mut Steps<'_>) -> Result<()> {
    let device = steps.device();
    let large = Tensor::randn([10_000, 10_000], device)?;
    steps.read("before");
    drop(large);
    memory::empty_cache(device)?;
    steps.read("after");
    Ok(())
}

pub(super) fn process_data(steps: &mut Steps<'_>) -> Result<()> {
    let device = steps.device();
    let result = {
        let a = Tensor::randn([1000, 1000], device)?;
        let b = Tensor::randn([1000, 1000], device)?;
        let c = a.add(&b)?;
        steps.read("c");
        drop((a, b));
        steps.read("del_ab");
        c
    };
    memory::empty_cache(device)?;
    steps.read("empty_cache");
    drop(result);
    memory::empty_cache(device)?;
    steps.read("end");
    Ok(())
}

pub(super) fn multiple_ops(steps: &mut Steps<'_>) -> Result<()> {
    let device = steps.device();
    for round in 0..5 {
        let tensor = Tensor::randn([100, 100], device)?;
        let sum = tensor.sum()?;
        steps.read(format!("iter{round}"));
        sum.item()?;
        drop((tensor, sum));
        memory::empty_cache(device)?;
    }
    steps.read("end");
    Ok(())
}
