//! Hostile input for tests: the seeds of a fuzz target, and random mutations of them.
//!
//! `fuzz/` runs the same targets with libFuzzer, which is guided by coverage. This crate needs no
//! installed tools and produces the same inputs in every run. Tests that use it are therefore
//! regression tests of what fuzzing has found.

mod change;
mod random;

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use change::change;
use random::Random;

/// The maximum length of an input. Longer inputs find nothing more.
const LONGEST: usize = 1 << 16;

/// Passes to `target` every seed of the fuzz target `name`, and then `count` mutated seeds. The
/// environment variable `MUTATIONS` multiplies `count`.
///
/// # Panics
///
/// Panics if there are no seeds, or if `target` panics. In the latter case, the message contains
/// the input.
pub fn each(name: &str, count: usize, mut target: impl FnMut(&[u8])) {
    /// The maximum number of changes to a seed.
    const CHANGES: usize = 4;
    each_of(name, &seeds(name), count, CHANGES, |_, input| target(input));
}

/// Like [`each`], but uses the given `seeds`, and changes each of them at most `changes` times.
/// `target` also receives the seed from which an input was made.
///
/// # Panics
///
/// Panics under the same conditions as [`each`].
pub fn each_of(
    name: &str,
    seeds: &[Vec<u8>],
    count: usize,
    changes: usize,
    mut target: impl FnMut(&[u8], &[u8]),
) {
    assert!(!seeds.is_empty(), "no seeds for {name}");
    for seed in seeds {
        attempt(|| target(seed, seed), seed);
    }
    let times = std::env::var("MUTATIONS").map_or(1, |times| times.parse().expect("a number"));
    let mut random = Random::new(name);
    for _ in 0..count * times {
        let seed = random.one_of(seeds);
        let mut input = seed.clone();
        for _ in 0..=random.below(changes) {
            change(&mut input, seeds, &mut random);
        }
        input.truncate(LONGEST.max(seed.len()));
        attempt(|| target(seed, &input), &input);
    }
}

fn attempt(target: impl FnOnce(), input: &[u8]) {
    if let Err(panicked) = panic::catch_unwind(AssertUnwindSafe(target)) {
        let kept = std::env::temp_dir().join("gpu-leak-mutation");
        let _ = fs::write(&kept, input);
        panic!(
            "{}: the input is in {}: {}",
            panicked
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panicked.downcast_ref::<&str>().copied())
                .unwrap_or("a panic"),
            kept.display(),
            input.escape_ascii()
        );
    }
}

/// Returns the seeds of the fuzz target `name`, sorted by their own names.
///
/// # Panics
///
/// Panics if the seeds cannot be read.
#[must_use]
pub fn seeds(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let entries = fs::read_dir(directory.join(name)).expect("the seeds of a fuzz target");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a seed").path()).collect();
    paths.sort();
    let read = |path: &PathBuf| fs::read(path).expect("a seed");
    paths.iter().map(read).collect()
}
