//! Random numbers on the host, and the seeds that determine the numbers of each tensor.

use std::cell::Cell;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use crate::parallel::share_out;

/// A distribution of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    /// The uniform distribution over [0, 1).
    Uniform,
    /// The normal distribution with mean 0 and variance 1.
    Normal,
}

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Sets the seed from which this thread's random tensors are derived. Threads begin with seed 0.
///
/// The same seed and calls give the same numbers on the same kind of device. Embedded and CUDA
/// devices draw different numbers; use a [`crate::HostTensor`] if both must agree.
pub fn manual_seed(seed: u64) {
    STATE.set(seed);
}

/// Returns a new seed for each draw, as `SplitMix64` does
/// (<https://prng.di.unimi.it/splitmix64.c>).
pub(crate) fn next_seed() -> u64 {
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mut mixed = state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The number of elements that one generator stream fills. It is fixed, so that the results do not
/// depend on the number of threads.
const STREAM: usize = 1 << 16;

/// Fills a slice with random numbers on the host.
pub(crate) fn fill(distribution: Distribution, seed: u64, out: &mut [f32]) {
    share_out(out, STREAM, |start, piece| {
        let first = (start / STREAM) as u64;
        for (stream, numbers) in (first..).zip(piece.chunks_mut(STREAM)) {
            let mut generator = generator(seed);
            generator.set_stream(stream);
            match distribution {
                Distribution::Uniform => numbers.fill_with(|| generator.random()),
                Distribution::Normal => numbers.fill_with(|| generator.sample(StandardNormal)),
            }
        }
    });
}

/// The generator for everything that is drawn on the host.
pub(crate) fn generator(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Draws integers from `low..high`.
pub(crate) fn integers(seed: u64, low: i64, high: i64, count: usize) -> Vec<i64> {
    let mut generator = generator(seed);
    (0..count)
        .map(|_| generator.random_range(low..high))
        .collect()
}

/// Returns `0..count` in a random order that depends on the seed.
pub(crate) fn permutation(seed: u64, count: usize) -> Vec<usize> {
    let mut generator = generator(seed);
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(&mut generator);
    order
}
