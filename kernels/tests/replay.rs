//! Replayed graphs produce the numbers of the same work done step by step, bit for bit.
//!
//! The tests run one after the other, in a separate program: synchronising a whole CUDA context, as
//! the end of a device does, ends the captures of all other threads.

use gpu_leak_kernels::memory::{self, Buffer, Policy, Stream, allocated, empty_cache, reserved};
use gpu_leak_kernels::nn::{Linear, Module};
use gpu_leak_kernels::optim::{Adam, Optimizer, Sgd};
use gpu_leak_kernels::{
    Device, EmbeddedConfig, Error, Graph, HostTensor, Result, Tensor, TinyModel, TrainingStep,
    manual_seed, no_grad,
};

use serial_test::serial;

/// The embedded device, and the first CUDA device where there is one.
fn devices() -> Vec<Device> {
    let embedded = Device::embedded().expect("an embedded device");
    std::iter::once(embedded).chain(Device::cuda(0)).collect()
}

const STEPS: u64 = 20;

/// Batches that differ from step to step.
fn batch(step: u64, device: &Device) -> Result<(Tensor, Tensor)> {
    manual_seed(100 + step);
    Ok((
        HostTensor::rand([64, TinyModel::INPUTS])?.to(device)?,
        HostTensor::rand([64, TinyModel::OUTPUTS])?.to(device)?,
    ))
}

/// The bits of a training's results: the losses, then the parameters.
fn trained(losses: Vec<f32>, model: &TinyModel) -> Result<Vec<u32>> {
    let mut numbers = losses;
    for parameter in model.parameters() {
        numbers.extend(parameter.to_vec::<f32>()?);
    }
    Ok(numbers.into_iter().map(f32::to_bits).collect())
}

fn eager(device: &Device, momentum: f32) -> Result<Vec<u32>> {
    manual_seed(3);
    let model = TinyModel::new(device)?;
    let mut optimizer = Sgd::new(model.parameters(), 0.05)?.momentum(momentum);
    let mut losses = Vec::new();
    for step in 0..STEPS {
        let (inputs, targets) = batch(step, device)?;
        optimizer.zero_grad();
        let loss = model.forward(&inputs)?.mse_loss(&targets)?;
        loss.backward()?;
        optimizer.step()?;
        losses.push(loss.item()?);
    }
    trained(losses.split_off(1), &model)
}

fn replayed(device: &Device, momentum: f32) -> Result<Vec<u32>> {
    manual_seed(3);
    let model = TinyModel::new(device)?;
    let mut optimizer = Sgd::new(model.parameters(), 0.05)?.momentum(momentum);
    let (inputs, targets) = batch(0, device)?;
    // This performs the first step.
    let mut step = TrainingStep::capture(&mut optimizer, &inputs, &targets, |inputs, targets| {
        model.forward(inputs)?.mse_loss(targets)
    })?;
    let mut losses = Vec::new();
    for number in 1..STEPS {
        let (inputs, targets) = batch(number, device)?;
        step.step(&inputs, &targets)?;
        losses.push(step.loss().item()?);
    }
    trained(losses, &model)
}

#[test]
#[serial]
fn replayed_steps_train_like_separate_steps() -> Result<()> {
    for device in devices() {
        for momentum in [0.0, 0.9] {
            let (eager, replayed) = (eager(&device, momentum)?, replayed(&device, momentum)?);
            assert!(eager == replayed, "{device}, momentum {momentum}");
        }
    }
    Ok(())
}

#[test]
#[serial]
fn a_step_between_replays_takes_part() -> Result<()> {
    for device in devices() {
        manual_seed(5);
        let model = TinyModel::new(&device)?;
        let mut optimizer = Sgd::new(model.parameters(), 0.05)?;
        let (inputs, targets) = batch(0, &device)?;
        let loss = |inputs: &Tensor, targets: &Tensor| model.forward(inputs)?.mse_loss(targets);
        let mut step = TrainingStep::capture(&mut optimizer, &inputs, &targets, loss)?;
        step.replay()?;
        optimizer.zero_grad();
        loss(&inputs, &targets)?.backward()?;
        optimizer.step()?;
        step.replay()?;
        let mixed = trained(Vec::new(), &model)?;

        manual_seed(5);
        let model = TinyModel::new(&device)?;
        let mut optimizer = Sgd::new(model.parameters(), 0.05)?;
        for _ in 0..4 {
            optimizer.zero_grad();
            model.forward(&inputs)?.mse_loss(&targets)?.backward()?;
            optimizer.step()?;
        }
        assert_eq!(mixed, trained(Vec::new(), &model)?, "{device}");
    }
    Ok(())
}

/// Performs every operation that can be recorded, once.
fn everything(input: &Tensor, classes: &Tensor, bias: &Tensor) -> Result<Vec<Tensor>> {
    let weight = input.transpose(0, 1)?.sin()?.requires_grad_(true)?;
    let scores = input.matmul(&weight)?.add(bias)?.relu()?;
    let loss = scores.cross_entropy(classes)?;
    loss.backward()?;
    let spread = scores.detach().softmax(1)?.mul(&scores.detach())?;
    let total = spread.sub(&spread.transpose(0, 1)?)?.sum()?;
    let kept = Tensor::full([3], 0.25, input.device())?;
    kept.add_(&Tensor::full([], 1.0, input.device())?)?;
    let cleared = Tensor::zeros([2], input.device())?;
    let gradient = weight.grad().expect("the pass left one");
    Ok(vec![
        loss.detach(),
        spread.mean()?,
        spread.add_scalar(1.5)?.mul_scalar(2.0)?,
        total,
        kept,
        cleared,
        gradient,
    ])
}

fn bits(tensors: &[Tensor]) -> Result<Vec<Vec<u32>>> {
    let numbers = tensors.iter().map(Tensor::to_vec::<f32>);
    let bits = numbers.map(|numbers| Ok(numbers?.into_iter().map(f32::to_bits).collect()));
    bits.collect()
}

#[test]
#[serial]
fn every_operation_of_a_graph_computes_what_it_computes_outside() -> Result<()> {
    for device in devices() {
        manual_seed(9);
        let classes = HostTensor::from_i64(vec![0, 3, 1, 2], [4])?.to(&device)?;
        let bias = HostTensor::rand([4])?.to(&device)?;
        let input = HostTensor::rand([4, 6])?.to(&device)?;
        everything(&input, &classes, &bias)?;
        let (graph, outputs) = Graph::capture(&device, || everything(&input, &classes, &bias))?;
        let mut graph = graph.instantiate()?;
        for _ in 0..3 {
            input.copy_(&HostTensor::rand([4, 6])?.to(&device)?)?;
            graph.replay()?;
            let alone = everything(&input, &classes, &bias)?;
            assert_eq!(bits(&outputs)?, bits(&alone)?, "{device}");
        }
    }
    Ok(())
}

/// The products are large enough for cuBLAS.
#[test]
#[serial]
fn large_products_are_recorded_once_the_library_is_loaded() -> Result<()> {
    for device in devices() {
        let left = HostTensor::rand([128, 5000])?.to(&device)?;
        let right = HostTensor::rand([5000, 64])?.to(&device)?;
        let product = || left.matmul(&right)?.relu();
        let before = product()?.to_vec::<f32>()?;
        let (graph, out) = Graph::capture(&device, product)?;
        graph.instantiate()?.replay()?;
        assert_eq!(out.to_vec::<f32>()?, before, "{device}");
    }
    Ok(())
}

#[test]
#[serial]
fn a_saved_tensor_that_a_replay_has_changed_is_noticed() -> Result<()> {
    for device in devices() {
        let state = Tensor::full([3], 1.0, &device)?;
        let increase = || state.add_(&Tensor::full([3], 1.0, state.device())?);
        increase()?;
        let (graph, ()) = Graph::capture(&device, increase)?;
        let weight = Tensor::full([3], 2.0, &device)?.requires_grad_(true)?;
        let loss = weight.mul(&state)?.sum()?;
        graph.instantiate()?.replay()?;
        let error = loss
            .backward()
            .expect_err("the saved contents are outdated");
        assert!(error.to_string().contains("changed in place"), "{error}");
    }
    Ok(())
}

/// A graph keeps the memory that it uses and allocates, even if nothing else holds that memory.
#[test]
#[serial]
fn a_graph_keeps_its_inputs_and_its_allocations() -> Result<()> {
    for device in devices() {
        let input = Tensor::full([1000], 3.0, &device)?;
        input.sin()?.mul(&input)?;
        let (graph, out) = Graph::capture(&device, || input.sin()?.mul(&input))?;
        let mut graph = graph.instantiate()?;
        drop(input);
        empty_cache(&device)?;
        // If the memory of the input or of the graph were free, these tensors would take it.
        let others: Vec<_> = (0..64)
            .map(|_| Tensor::full([1000], -1.0, &device))
            .collect::<Result<_>>()?;
        graph.replay()?;
        for number in out.to_vec::<f32>()? {
            assert!((number - 3.0_f32.sin() * 3.0).abs() < 1e-6, "{number}");
        }
        for other in &others {
            assert_eq!(other.to_vec::<f32>()?, [-1.0; 1000]);
        }
        drop((graph, out, others));
        empty_cache(&device)?;
        assert_eq!((allocated(&device), reserved(&device)), (0, 0), "{device}");
    }
    Ok(())
}

#[test]
#[serial]
fn gradients_of_a_captured_step_go_with_zero_grad() -> Result<()> {
    for device in devices() {
        let layer = Linear::new(4, 2, &device)?;
        let mut optimizer = Sgd::new(layer.parameters(), 0.1)?;
        let inputs = Tensor::full([3, 4], 1.0, &device)?;
        let targets = Tensor::zeros([3, 2], &device)?;
        let mut step = TrainingStep::capture(&mut optimizer, &inputs, &targets, |x, y| {
            layer.forward(x)?.mse_loss(y)
        })?;
        step.replay()?;
        drop(step);
        optimizer.zero_grad();
        drop((optimizer, layer, inputs, targets));
        empty_cache(&device)?;
        assert_eq!((allocated(&device), reserved(&device)), (0, 0), "{device}");
    }
    Ok(())
}

/// A part of the expected error, and an operation that must be refused.
type Refused = (&'static str, fn(&Device, &Tensor) -> Result<()>);

const REFUSED: &[Refused] = &[
    ("a copy to the host", |_, input| {
        input.sum()?.item().map(drop)
    }),
    ("a copy to the host", |_, input| {
        input.to_vec::<f32>().map(drop)
    }),
    ("a copy from the host", |device, _| {
        HostTensor::rand([3])?.to(device).map(drop)
    }),
    ("a draw of random numbers", |device, _| {
        Tensor::rand([3], device).map(drop)
    }),
    ("waiting for the device", |device, _| device.synchronize()),
    ("emptying the cache", |device, _| empty_cache(device)),
    ("waiting for the device", |device, _| {
        memory::release(device, ()).map(drop)
    }),
    ("a step of Adam", |device, _| {
        let parameter = Tensor::zeros([3], device)?.requires_grad_(true)?;
        parameter.set_grad(Tensor::zeros([3], device)?)?;
        Adam::new(vec![parameter], 0.1)?.step()
    }),
    ("the first step with momentum", |device, _| {
        let parameter = Tensor::zeros([3], device)?.requires_grad_(true)?;
        parameter.set_grad(Tensor::zeros([3], device)?)?;
        Sgd::new(vec![parameter], 0.1)?.momentum(0.9).step()
    }),
    (
        "capture: this thread is already capturing a graph",
        |device, _| Graph::capture(device, || Ok(())).map(drop),
    ),
    ("the capture is on ", |_, _| {
        Tensor::zeros([3], &Device::embedded()?).map(drop)
    }),
    // Emptying the cache would make room for this request.
    (
        "the cache cannot be emptied during a capture",
        |device, _| {
            let room = memory::device_memory(device)?.free;
            Buffer::new(device, room + 1).map(drop)
        },
    ),
];

#[test]
#[serial]
fn an_operation_that_cannot_be_captured_is_refused_and_leaves_nothing() -> Result<()> {
    for device in devices() {
        let input = Tensor::full([3], 1.0, &device)?;
        input.add_scalar(1.0)?.sum()?;
        for (what, act) in REFUSED {
            // The closure either returns the error or continues.
            for go_on in [false, true] {
                let captured = Graph::capture(&device, || {
                    let kept = input.add_scalar(1.0)?;
                    match act(&device, &input) {
                        Err(error) if !go_on => Err(error),
                        _ => Ok(kept),
                    }
                });
                let error = captured.expect_err(what);
                let text = error.to_string().to_lowercase();
                assert!(matches!(error, Error::Capture { .. }), "{text}");
                assert!(text.contains(&what.to_lowercase()), "{what}: {text}");
            }
            // These calls succeed only because no capture is active any more.
            device.synchronize()?;
            empty_cache(&device)?;
            assert_eq!(allocated(&device), 512, "{what}");
            assert_eq!(reserved(&device), 2 << 20, "{what}");
        }
        let (graph, out) = Graph::capture(&device, || input.add_scalar(1.0))?;
        graph.instantiate()?.replay()?;
        assert_eq!(out.to_vec::<f32>()?, [2.0; 3]);
    }
    Ok(())
}

#[test]
#[serial]
fn memory_for_another_stream_is_refused() -> Result<()> {
    let device = Device::embedded()?;
    let stream = device.as_embedded().expect("it is one").new_stream();
    let stream = Stream::Embedded(stream);
    let buffer = Buffer::new(&device, 100)?;
    for act in [&|| Buffer::new_on(&device, 100, &stream).map(drop), &|| {
        buffer.record_stream(&stream)
    }] as [&dyn Fn() -> Result<()>; 2]
    {
        let error = Graph::capture(&device, act).expect_err("another stream");
        assert!(error.to_string().contains("another stream"), "{error}");
        act()?;
    }
    Ok(())
}

#[test]
#[serial]
fn without_a_cache_nothing_is_captured() -> Result<()> {
    let device = Device::embedded_with(EmbeddedConfig {
        policy: Policy::Direct,
        ..EmbeddedConfig::default()
    })?;
    let error = Graph::capture(&device, || Ok(())).expect_err("it has no pools");
    assert!(error.to_string().contains("Policy::Caching"), "{error}");
    Ok(())
}

#[test]
#[serial]
fn a_closure_that_fails_or_panics_ends_its_capture() -> Result<()> {
    for device in devices() {
        let failed: Result<(Graph, ())> = Graph::capture(&device, || {
            let rows = Tensor::zeros([2, 3], &device)?;
            rows.matmul(&rows).map(drop)
        });
        assert!(matches!(failed, Err(Error::Shape { .. })), "{failed:?}");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = Graph::capture(&device, || -> Result<()> {
                let _kept = Tensor::zeros([3], &device)?;
                panic!("in the middle");
            });
        }));
        assert!(panicked.is_err());
        empty_cache(&device)?;
        assert_eq!((allocated(&device), reserved(&device)), (0, 0), "{device}");
    }
    Ok(())
}

#[test]
#[serial]
fn captures_of_several_threads_do_not_interfere() -> Result<()> {
    for device in devices() {
        let input = Tensor::full([1000], 2.0, &device)?;
        no_grad(|| input.sin())?;
        let capture_and_replay = || -> Result<()> {
            for _ in 0..25 {
                let (graph, out) = Graph::capture(&device, || input.sin())?;
                graph.instantiate()?.replay()?;
                // This runs while the other threads capture.
                assert_eq!(out.to_vec::<f32>()?, input.sin()?.to_vec::<f32>()?);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(capture_and_replay));
            let outcomes = threads.map(|thread| thread.join().expect("it does not panic"));
            outcomes.into_iter().collect::<Result<()>>()
        })?;
        drop(input);
        empty_cache(&device)?;
        assert_eq!((allocated(&device), reserved(&device)), (0, 0), "{device}");
    }
    Ok(())
}
