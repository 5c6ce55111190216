//! Training with burn leaves nothing on the GPU, and two planted leaks are found.
//!
//! cubecl does the work of all tests on its own thread. A check can tell which test caused
//! the work only if the tests run one at a time, as `.cargo/config.toml` requires.

use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::{Kind, Layer};
use gpu_leak_client_burn::{Device, train};
use gpu_leak_client_support as support;

#[cfg(feature = "cuda")]
gpu_leak_check::probe!(&gpu_leak_cubecl::CUDA);
#[cfg(feature = "vulkan")]
gpu_leak_check::probe!(&gpu_leak_cubecl::WGPU);

#[gpu_leak_check]
#[test]
fn training_frees_everything() {
    let losses = train(&Device::default(), 100);
    assert!(losses[99] < losses[0], "it learns: {losses:?}");
}

/// Tests that leak. Each is run in a separate process by a test below.
mod planted {
    use std::sync::Mutex;

    use burn::tensor::{Distribution, Tensor};
    use gpu_leak_client_burn::{Device, Gpu};

    use super::gpu_leak_check;

    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[test]
    fn a_forgotten_tensor() {
        let scores = Tensor::<Gpu, 2>::empty([256, 1024], &Device::default());
        std::mem::forget(scores);
    }

    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[test]
    fn samples_kept_for_a_plot() {
        static HISTORY: Mutex<Vec<Tensor<Gpu, 2>>> = Mutex::new(Vec::new());
        for _ in 0..10 {
            let noise = Distribution::Normal(0., 1.);
            let samples = Tensor::random([16, 128], noise, &Device::default());
            HISTORY.lock().unwrap().push(samples);
        }
    }
}

/// Asserts that the only leak is one of `bytes` bytes in cubecl's pools. The line is not compared,
/// because cubecl allocates memory on its own thread, a page at a time.
#[track_caller]
fn assert_found(test: &str, bytes: u64) {
    let checked = support::run(&format!("planted::{test}"));
    let leaks = checked.leaks();
    let [leak] = leaks[..] else {
        panic!("{} leaks\n{}", leaks.len(), checked.output);
    };
    let what = (leak.layer, leak.resource, leak.bytes);
    let expected = (Layer::allocator("cubecl"), Some(Kind::Block), bytes);
    assert_eq!(what, expected, "{}", checked.output);
}

#[test]
fn a_forgotten_tensor_is_found() {
    assert_found("a_forgotten_tensor", 256 * 1024 * 4);
}

#[test]
fn samples_kept_for_a_plot_are_found() {
    assert_found("samples_kept_for_a_plot", 10 * 16 * 128 * 4);
}
