//! Every program is clean: on the embedded device, and a hundred times over on a GPU.

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

/// The device is the test's own: with it go the kernels and library handles that it made.
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

// Without those that only a GPU has the room and the patience for.
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
