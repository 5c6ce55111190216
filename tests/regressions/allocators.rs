//! Memory that caching allocators keep, on the embedded device or in a simulated allocator.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};

use gpu_leak_check::ledger::Kind;
use gpu_leak_check::probe::{Probe, Segment};
use gpu_leak_check::report::check_report::FindingKind;
use gpu_leak_check::{Place, gpu_leak_check};
use gpu_leak_kernels::memory::{Buffer, Stream};
use gpu_leak_kernels::{Device, Tensor};
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;

use super::{assert_only_leak, failed};

fn run(body: &str) -> Checked {
    checked::finish(Run::of(&format!("regressions::allocators::{body}")))
}

/// Returns the device, which the process creates once, like a suite whose tests share a device.
fn device() -> &'static Device {
    static DEVICE: LazyLock<Device> = LazyLock::new(|| Device::embedded().expect("a device"));
    &DEVICE
}

/// Fails unless the only finding is that the test exceeded its budget.
#[track_caller]
fn assert_over_budget(checked: &Checked, bytes: u64) {
    let [finding] = &failed(checked).findings[..] else {
        panic!("{}", checked.output())
    };
    assert_eq!(
        (finding.kind, finding.bytes),
        (FindingKind::OverBudget, bytes),
        "{}",
        checked.output()
    );
}

/// `cumsum` multiplied by an n × n matrix, which took gigabytes for thousands of numbers. All of
/// this was freed, but the peak exceeded what such a sum should need.
/// <https://github.com/huggingface/candle/issues/1599>
#[test]
fn candle_1599_the_matrix_of_a_cumulative_sum() {
    let (numbers, matrix) = (4096, 4 << 20);
    assert_over_budget(&run("sums_cumulatively"), matrix + 2 * numbers);
}

#[gpu_leak_check(layer = "allocator:gpu-leak-kernels", max_allocated = "1 MiB")]
#[ignore = "takes too much on purpose"]
#[test]
fn sums_cumulatively() {
    const N: usize = 1024;
    let numbers = Tensor::full([1, N], 1.0, device()).unwrap();
    let matrix = Tensor::full([N, N], 1.0, device()).unwrap();
    numbers.matmul(&matrix).unwrap();
}

/// Frees on a separate stream lagged behind the allocations, so the device filled up although
/// little memory was in use. <https://github.com/chelsea0x3b/cudarc/pull/94>
#[test]
fn cudarc_94_frees_that_lag_behind() {
    assert_over_budget(&run("frees_on_a_slow_stream"), 16 * (20 << 20));
}

#[gpu_leak_check(layer = "allocator:embedded", max_allocated = "20 MiB")]
#[ignore = "takes too much on purpose"]
#[test]
fn frees_on_a_slow_stream() {
    let slow = device().as_embedded().expect("it is one").new_stream();
    slow.hold_up();
    for _ in 0..16 {
        let buffer = Buffer::new(device(), 20 << 20).unwrap();
        buffer
            .record_stream(&Stream::Embedded(slow.clone()))
            .unwrap();
    }
    slow.resume();
}

/// The constants of a traced program were in a compilation unit that lives as long as the process.
/// They are small, but each trace added more. <https://github.com/pytorch/pytorch/issues/43119>
#[test]
fn pytorch_43119_constants_of_a_process_wide_unit() {
    let checked = run("traces");
    assert_only_leak(&checked, Kind::Block, 3, 1536);
}

#[gpu_leak_check]
#[ignore = "leaks on purpose"]
#[test]
fn traces() {
    static UNIT: Mutex<Vec<Tensor>> = Mutex::new(Vec::new());
    for value in 0..3_u8 {
        let constant = Tensor::full([128], f32::from(value), device()).unwrap();
        UNIT.lock().unwrap().push(constant);
    }
}

/// A capture that failed never released its private pool. Nothing was allocated, but the segments
/// stayed reserved. <https://github.com/pytorch/pytorch/pull/190348>
#[test]
fn pytorch_190348_the_private_pool_of_a_failed_capture() {
    let checked = run("fails_to_capture");
    let [finding] = &failed(&checked).findings[..] else {
        panic!("{}", checked.output())
    };
    assert_eq!(
        (finding.kind, finding.bytes),
        (FindingKind::Retained, 20 << 20),
        "{}",
        checked.output()
    );
}

#[gpu_leak_check]
#[ignore = "retains on purpose"]
#[test]
fn fails_to_capture() {
    PRIVATE.fetch_add(20 << 20, Ordering::Relaxed);
}

/// The bytes of the segments that [`Simulated`] has reserved for captures.
static PRIVATE: AtomicU64 = AtomicU64::new(0);

/// A simulated allocator, which never releases what it has reserved for a capture.
struct Simulated;

static SIMULATED: Simulated = Simulated;
gpu_leak_check::probe!(&SIMULATED);

impl Probe for Simulated {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn places(&self) -> Vec<Place> {
        let is_used = PRIVATE.load(Ordering::Relaxed) != 0;
        Vec::from_iter(is_used.then(|| Place::named("simulated:0")))
    }

    fn allocated(&self, _: Place) -> u64 {
        0
    }

    fn reserved(&self, _: Place) -> u64 {
        PRIVATE.load(Ordering::Relaxed)
    }

    fn segments(&self, _: Place) -> Vec<Segment> {
        Vec::new()
    }

    fn empty_cache(&self, _: Place) {}
}
