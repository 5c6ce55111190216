//! Steps of the optimisers, compared with their formulas.

use gpu_leak_kernels::nn::{Linear, Module, Sequential};
use gpu_leak_kernels::optim::{Adam, Optimizer, Sgd};
use gpu_leak_kernels::{Device, HostTensor, Result, Tensor, manual_seed, memory};

use super::{assert_close, devices};

/// More parameters than one launch handles, with sizes below and above what one block handles.
const SIZES: [usize; 60] = {
    let mut sizes = [0; 60];
    let mut place = 0;
    while place < sizes.len() {
        sizes[place] = 1 + place * 37;
        place += 1;
    }
    sizes
};

struct Reference {
    values: Vec<f64>,
    first: Vec<f64>,
    second: Vec<f64>,
}

/// Takes three steps with random gradients. `formula` computes what a step should do to one number.
fn check<O: Optimizer>(
    device: &Device,
    make: impl Fn(Vec<Tensor>) -> Result<O>,
    formula: impl Fn(i32, f64, &mut f64, &mut f64, &mut f64),
) -> Result<()> {
    manual_seed(11);
    let parameters: Vec<Tensor> = SIZES
        .iter()
        .map(|size| HostTensor::randn([*size])?.to(device)?.requires_grad_(true))
        .collect::<Result<_>>()?;
    let mut references = Vec::new();
    for parameter in &parameters {
        let values: Vec<f32> = parameter.to_vec()?;
        references.push(Reference {
            first: vec![0.0; values.len()],
            second: vec![0.0; values.len()],
            values: values.into_iter().map(f64::from).collect(),
        });
    }
    let mut optimizer = make(parameters.clone())?;
    for step in 1..=3 {
        for (parameter, reference) in parameters.iter().zip(&mut references) {
            let gradient = HostTensor::randn(parameter.shape())?.to(device)?;
            for (place, gradient) in gradient.to_vec::<f32>()?.into_iter().enumerate() {
                formula(
                    step,
                    gradient.into(),
                    &mut reference.values[place],
                    &mut reference.first[place],
                    &mut reference.second[place],
                );
            }
            parameter.set_grad(gradient)?;
        }
        optimizer.step()?;
        for (parameter, reference) in parameters.iter().zip(&references) {
            let found = parameter.to_vec()?;
            assert_close("a parameter", &found, &reference.values, 1e-5);
        }
    }
    optimizer.zero_grad_in_place()?;
    let gradient = parameters[5].grad().expect("it is kept");
    assert!(gradient.to_vec::<f32>()?.iter().all(|x| *x == 0.0));
    optimizer.zero_grad();
    assert!(
        parameters
            .iter()
            .all(|parameter| parameter.grad().is_none())
    );
    Ok(())
}

#[test]
fn sgd_follows_its_formula() -> Result<()> {
    for device in devices() {
        check(
            &device,
            |parameters| Ok(Sgd::new(parameters, 0.1)?.weight_decay(0.01)),
            |_, gradient, value, _, _| *value -= 0.1 * (gradient + 0.01 * *value),
        )?;
        check(
            &device,
            |parameters| Ok(Sgd::new(parameters, 0.1)?.momentum(0.9).weight_decay(0.01)),
            |_, gradient, value, momentum, _| {
                *momentum = 0.9 * *momentum + gradient + 0.01 * *value;
                *value -= 0.1 * *momentum;
            },
        )?;
    }
    Ok(())
}

#[test]
fn adam_follows_its_formula() -> Result<()> {
    for device in devices() {
        check(
            &device,
            |parameters| {
                Ok(Adam::new(parameters, 0.01)?
                    .betas(0.8, 0.99)
                    .epsilon(1e-6)
                    .weight_decay(0.02))
            },
            |step, gradient, value, mean, square| {
                let gradient = gradient + 0.02 * *value;
                *mean = 0.8 * *mean + 0.2 * gradient;
                *square = 0.99 * *square + 0.01 * gradient * gradient;
                let mean = *mean / (1.0 - 0.8_f64.powi(step));
                let square = *square / (1.0 - 0.99_f64.powi(step));
                *value -= 0.01 * mean / (square.sqrt() + 1e-6);
            },
        )?;
    }
    Ok(())
}

#[test]
fn a_parameter_without_a_gradient_stays_and_begins_its_momentum_later() -> Result<()> {
    for device in devices() {
        let early = Tensor::full([3], 1.0, &device)?.requires_grad_(true)?;
        let late = Tensor::full([3], 1.0, &device)?.requires_grad_(true)?;
        let mut optimizer = Sgd::new(vec![early.clone(), late.clone()], 0.5)?.momentum(0.5);
        let gradient = || Tensor::full([3], 1.0, &device);
        early.set_grad(gradient()?)?;
        optimizer.step()?;
        assert_eq!(late.to_vec::<f32>()?, [1.0; 3]);
        late.set_grad(gradient()?)?;
        optimizer.step()?;
        // 1 − 0.5 · 1 − 0.5 · (0.5 + 1) for `early`, and a single step without momentum for `late`.
        assert_eq!(early.to_vec::<f32>()?, [-0.25; 3]);
        assert_eq!(late.to_vec::<f32>()?, [0.5; 3]);
    }
    Ok(())
}

/// The memory of a momentum holds old bytes until a step writes to it.
#[test]
fn a_momentum_begins_with_the_first_step_that_succeeds() -> Result<()> {
    let device = Device::embedded()?;
    let parameter = |size: usize| Tensor::full([size], 1.0, &device)?.requires_grad_(true);
    // The momentum of the second parameter needs a segment of its own.
    let (small, large) = (parameter(4)?, parameter(3 << 20)?);
    let mut optimizer = Sgd::new(vec![small.clone(), large.clone()], 0.5)?.momentum(0.5);
    for parameter in [&small, &large] {
        parameter.set_grad(Tensor::full(parameter.shape(), 1.0, &device)?)?;
    }
    drop(Tensor::full([4], f32::NAN, &device)?);
    device.as_embedded().expect("it is one").fail_allocation(1);
    // The request is repeated after the cache was emptied, so the limit makes it fail again.
    memory::set_memory_limit(&device, Some(memory::reserved(&device)));
    optimizer.step().expect_err("there is no room");
    memory::set_memory_limit(&device, None);
    assert_eq!(small.to_vec::<f32>()?, [1.0; 4]);
    optimizer.step()?;
    assert_eq!(small.to_vec::<f32>()?, [0.5; 4]);
    Ok(())
}

/// As in PyTorch.
#[test]
fn a_step_without_momentum_leaves_the_momentum_as_it_is() -> Result<()> {
    for device in devices() {
        let parameter = Tensor::full([1], 0.0, &device)?.requires_grad_(true)?;
        let mut optimizer = Sgd::new(vec![parameter.clone()], 1.0)?;
        for (momentum, gradient) in [(0.5, 1.0), (0.0, 2.0), (0.5, 1.0)] {
            optimizer = optimizer.momentum(momentum);
            parameter.set_grad(Tensor::full([1], gradient, &device)?)?;
            optimizer.step()?;
        }
        assert_eq!(parameter.item()?, -(1.0 + 2.0 + 1.5));
    }
    Ok(())
}

#[test]
fn a_parameter_of_tied_layers_is_changed_once_per_step() -> Result<()> {
    for device in devices() {
        let layer = Linear::new(1, 1, &device)?;
        let tied = Sequential::new().then(layer.clone()).then(layer.clone());
        let mut optimizer = Sgd::new(tied.parameters(), 0.5)?;
        assert_eq!(optimizer.parameters().len(), 2);
        let before = layer.weight.item()?;
        layer.weight.set_grad(Tensor::full([1, 1], 1.0, &device)?)?;
        optimizer.step()?;
        assert_eq!(layer.weight.item()?, before - 0.5);
    }
    Ok(())
}

#[test]
fn only_leaves_that_require_gradients_are_parameters() -> Result<()> {
    let device = Device::embedded()?;
    let plain = Tensor::zeros([2], &device)?;
    assert!(Sgd::new(vec![plain.clone()], 0.1).is_err());
    let made = plain.requires_grad_(true)?.sin()?;
    assert!(Adam::new(vec![made], 0.1).is_err());
    Ok(())
}

#[test]
fn a_gradient_set_by_hand_fits_its_parameter_and_may_be_a_view() -> Result<()> {
    for device in devices() {
        let value = HostTensor::from_f32(vec![1.0, 2.0, 3.0, 4.0], [2, 2])?.to(&device)?;
        let parameter = value.requires_grad_(true)?;
        let mut optimizer = Sgd::new(vec![parameter.clone()], 0.5)?;
        // The gradient is a transposed view of the parameter, so the step reads what it writes.
        parameter.set_grad(parameter.detach().transpose(0, 1)?)?;
        optimizer.step()?;
        assert_eq!(parameter.to_vec::<f32>()?, [0.5, 0.5, 2.0, 2.0]);
        let error = parameter
            .set_grad(Tensor::zeros([3], &device)?)
            .expect_err("the shapes differ");
        assert!(error.to_string().contains("[3]"), "{error}");
        let labels = HostTensor::from_i64(vec![1, 2], [2])?.to(&device)?;
        assert!(labels.set_grad(Tensor::zeros([2], &device)?).is_err());
    }
    Ok(())
}
