//! Measures the cost of a request that the cache can serve, and of the free that follows. No GPU is
//! needed.
//!
//! ```text
//! cargo bench -p gpu-leak-kernels --bench allocator
//! ```
//!
//! The allocation columns count host memory: a cache hit allocates none.

use divan::{AllocProfiler, Bencher, black_box};
use gpu_leak_core::sync::Lock;
use gpu_leak_kernels::Device;
use gpu_leak_kernels::memory::Buffer;

#[global_allocator]
static HOST: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// The minimal cost of a request and its free: locking the allocator twice.
#[divan::bench]
fn floor(bencher: Bencher<'_, '_>) {
    let lock: Lock<_> = Lock::new(0_u64);
    let enter = || *black_box(&lock).lock() += 1;
    bencher.bench_local(|| {
        enter();
        enter();
    });
}

fn take(device: &Device, bytes: usize) -> Buffer {
    Buffer::new(device, bytes).expect("there is room")
}

/// Buffers of different sizes, with `holes` holes between them.
fn with_holes(device: &Device, holes: usize) -> Vec<Buffer> {
    let sizes = (0..2 * holes).map(|n| 512 * (1 + n * 7 % 100));
    let all: Vec<_> = sizes.map(|bytes| take(device, bytes)).collect();
    all.into_iter().step_by(2).collect()
}

#[divan::bench(args = [0, 10, 1000])]
fn take_and_drop(bencher: Bencher<'_, '_>, holes: usize) {
    let device = Device::embedded().expect("a device");
    let _kept = with_holes(&device, holes);
    drop(take(&device, 80_000));
    // The buffer is dropped in the closure, because divan would not measure the drop otherwise.
    bencher.bench_local(|| drop(take(&device, 80_000)));
}

/// Buffers of the sizes in a training step of `TinyModel`. All are allocated before any is dropped.
#[divan::bench(args = [0, 10, 1000])]
fn take_twelve_and_drop(bencher: Bencher<'_, '_>, holes: usize) {
    let device = Device::embedded().expect("a device");
    let _kept = with_holes(&device, holes);
    let sizes = [
        51_200, 51_200, 2560, 2560, 2560, 2560, 8000, 40, 51_200, 80_000, 800, 4,
    ];
    bencher
        .counter(sizes.len())
        .bench_local(|| drop(sizes.map(|bytes| take(&device, bytes))));
}

/// Each sample has many requests, so that the threads contend throughout the sample.
#[divan::bench(threads = [1, 2, 4], sample_size = 10_000)]
fn take_and_drop_by_threads(bencher: Bencher<'_, '_>) {
    let device = Device::embedded().expect("a device");
    drop(take(&device, 2560));
    bencher.bench(|| drop(take(&device, 2560)));
}
