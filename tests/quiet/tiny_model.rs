//! A model's forward pass, in a hundred consecutive checks.

use std::sync::OnceLock;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_kernels::nn::Module;
use gpu_leak_kernels::{Device, Result, Tensor, TinyModel, inference_mode};
use gpu_leak_tests::child::Run;
use gpu_leak_tests::{checked, gpu};

use super::assert_quiet_but_for_first_use;

/// The process creates the device once, like a suite whose tests share a device.
static DEVICE: OnceLock<Device> = OnceLock::new();

#[gpu_leak_check]
#[ignore = "needs the device of its caller"]
#[test]
fn forward() -> Result<()> {
    let device = DEVICE.get().expect("the caller makes it");
    let model = TinyModel::new(device)?;
    let batch = Tensor::rand([64, 100], device)?;
    inference_mode(|| model.forward(&batch))?;
    Ok(())
}

fn a_hundred_times(device: Result<Device>) {
    DEVICE.set(device.expect("the device")).expect("the first");
    for _ in 0..100 {
        let _ = forward();
    }
}

#[test]
#[ignore = "run in a process of its own"]
fn on_embedded() {
    a_hundred_times(Device::embedded());
}

#[test]
#[ignore = "run in a process of its own"]
fn on_cuda() {
    a_hundred_times(Device::cuda(0));
}

/// Fails unless all checks were clean. One of them may instead report resources that the device
/// creates once and keeps: its kernels, and the state of a library.
#[track_caller]
fn assert_quiet(test: &str) {
    let checked = checked::finish(Run::of(&format!("quiet::tiny_model::{test}")));
    assert_quiet_but_for_first_use(&checked, 100);
}

#[test]
fn a_forward_pass_on_the_embedded_device() {
    assert_quiet("on_embedded");
}

#[test]
fn a_forward_pass_on_a_gpu() {
    if gpu::is_present() {
        assert_quiet("on_cuda");
    }
}
