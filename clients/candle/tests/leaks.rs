//! Training with candle leaves nothing on the GPU, and two planted leaks are found.

use candle_core::{DType, Device, Tensor};
use gpu_leak_check::gpu_leak_check;
use gpu_leak_check::ledger::Kind;
use gpu_leak_client_candle::train;
use gpu_leak_client_support as support;

#[gpu_leak_check]
#[test]
fn training_frees_everything() -> candle_core::Result<()> {
    let device = Device::new_cuda(0)?;
    let losses = train(&device, 100)?;
    assert!(losses[99] < losses[0], "it learns: {losses:?}");
    Ok(())
}

/// Tests that leak. Each is run in a separate process by a test below.
mod planted {
    use std::sync::{Mutex, OnceLock};

    use gpu_leak_client_candle::Training;

    use super::{DType, Device, Tensor, gpu_leak_check};

    /// All tests share one device. A tensor holds its device, so a leaked tensor with its own
    /// device would also leak that device, including its cuBLAS handle.
    fn device() -> &'static Device {
        static DEVICE: OnceLock<Device> = OnceLock::new();
        DEVICE.get_or_init(|| Device::new_cuda(0).expect("a CUDA device"))
    }

    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[test]
    fn a_forgotten_tensor() {
        let scores = Tensor::zeros((256, 1024), DType::F32, device()).unwrap(); // leak: forgotten
        std::mem::forget(scores);
    }

    #[gpu_leak_check]
    #[ignore = "leaks on purpose"]
    #[test]
    fn losses_kept_for_a_plot() -> candle_core::Result<()> {
        static HISTORY: Mutex<Vec<Tensor>> = Mutex::new(Vec::new());
        let mut training = Training::new(device())?;
        for _ in 0..10 {
            // Without `detach`, the loss would keep everything it was computed from.
            let loss = training.step()?.detach();
            HISTORY.lock().unwrap().push(loss);
        }
        Ok(())
    }
}

/// Asserts that the only leaked memory is `count` allocations of `bytes` bytes in total, and that
/// every leak has the same call site, at `line`.
#[track_caller]
fn assert_found(test: &str, (count, bytes): (u64, u64), line: (&str, u32)) {
    let checked = support::run(&format!("planted::{test}"));
    let (memory, handles): (Vec<_>, Vec<_>) = checked
        .leaks()
        .into_iter()
        .partition(|leak| leak.resource == Some(Kind::StreamOrdered));
    let [memory] = memory[..] else {
        panic!("{} leaks of memory\n{}", memory.len(), checked.output);
    };
    assert_eq!(
        (memory.count, memory.bytes),
        (count, bytes),
        "{}",
        checked.output
    );
    assert_eq!(support::blamed(memory), Some(line), "{}", checked.output);
    // cudarc creates two events for each slice of memory, to track its last uses.
    for handle in &handles {
        assert_eq!(handle.resource, Some(Kind::Event), "{}", checked.output);
        assert_eq!(support::blamed(handle), Some(line), "{}", checked.output);
    }
    let events: u64 = handles.iter().map(|handle| handle.count).sum();
    assert_eq!(events, 2 * count, "{}", checked.output);
}

#[test]
fn a_forgotten_tensor_is_found() {
    let line = support::line_of(include_str!("leaks.rs"), "forgotten");
    let bytes = 256 * 1024 * 4;
    assert_found("a_forgotten_tensor", (1, bytes), ("tests/leaks.rs", line));
}

#[test]
fn losses_kept_for_a_plot_are_found() {
    let line = support::line_of(include_str!("../src/lib.rs"), "loss");
    let bytes = 10 * 4;
    assert_found("losses_kept_for_a_plot", (10, bytes), ("src/lib.rs", line));
}
