//! Every program is clean, whether run once on the embedded device or a hundred times on a GPU.

use gpu_leak_check::gpu_leak_check;
use gpu_leak_kernels::programs::Program;
use gpu_leak_kernels::{Device, Result};

fn run(name: &str, device: &Device) -> Result<()> {
    let program = Program::named(name).expect("it is in the list");
    program.run(device).map(drop)
}

macro_rules! clean {
    ($($program:ident),+ $(,)?) => {
        mod on_the_embedded_device {
            use super::*;

            $(#[gpu_leak_check]
            #[test]
            fn $program() -> Result<()> {
                run(stringify!($program), &Device::embedded()?)
            })+
        }
    };
}

/// Each test creates its own device, whose loaded kernels and library handles end with it.
macro_rules! clean_on_cuda {
    ($($program:ident),+ $(,)?) => {
        mod on_cuda {
            use super::*;

            $(#[gpu_leak_check]
            #[test]
            fn $program() -> Result<()> {
                let Ok(device) = Device::cuda(0) else {
                    return Ok(());
                };
                for _ in 0..100 {
                    run(stringify!($program), &device)?;
                }
                Ok(())
            })+
        }
    };
}

/// Tests that a training step leaves nothing behind when everything is dropped, however often it
/// was replayed. On CUDA, these tests run in separate processes, because synchronising a whole
/// context ends the captures of all other threads.
mod replayed {
    use gpu_leak_kernels::nn::Module;
    use gpu_leak_kernels::optim::Sgd;
    use gpu_leak_kernels::{Tensor, TinyModel, TrainingStep};

    use super::*;

    fn train(device: &Device, replays: u32) -> Result<()> {
        let model = TinyModel::new(device)?;
        let inputs = Tensor::rand([64, TinyModel::INPUTS], device)?;
        let targets = Tensor::rand([64, TinyModel::OUTPUTS], device)?;
        let mut optimizer = Sgd::new(model.parameters(), 0.01)?.momentum(0.9);
        let mut step = TrainingStep::capture(&mut optimizer, &inputs, &targets, |x, y| {
            model.forward(x)?.mse_loss(y)
        })?;
        (0..replays).try_for_each(|_| step.replay())
    }

    #[gpu_leak_check]
    #[test]
    fn a_hundred_times_on_the_embedded_device() -> Result<()> {
        train(&Device::embedded()?, 100)
    }

    #[gpu_leak_check(isolate)]
    #[test]
    fn a_hundred_times_on_cuda() -> Result<()> {
        let Ok(device) = Device::cuda(0) else {
            return Ok(());
        };
        train(&device, 100)
    }

    #[gpu_leak_check(rounds = 5)]
    #[test]
    fn captured_anew_in_each_round_on_the_embedded_device() -> Result<()> {
        let device = Device::embedded()?;
        (0..20).try_for_each(|_| train(&device, 2))
    }

    #[gpu_leak_check(isolate)]
    #[test]
    fn captured_a_hundred_times_on_cuda() -> Result<()> {
        let Ok(device) = Device::cuda(0) else {
            return Ok(());
        };
        (0..100).try_for_each(|_| train(&device, 10))
    }
}

// This list excludes the programs that need a GPU because of their memory or time.
clean!(
    tiny_model_inference,
    tiny_model_training_adam,
    tiny_model_training_sgd,
    linear_no_grad,
    data_loader_loop,
    linear_adam_release,
    process_data,
    training_loop_sgd,
    multiple_ops,
);

clean_on_cuda!(
    tiny_model_inference,
    tiny_model_training_adam,
    tiny_model_training_sgd,
    sin_1024_cubed,
    linear_no_grad,
    data_loader_loop,
    linear_adam_release,
    large_randn,
    process_data,
    training_loop_sgd,
    multiple_ops,
);
