//! Hostile input for tests: the seeds of a fuzz target, and random mutations of them.
//!
//! `fuzz/` runs the same targets with libFuzzer, which is guided by coverage. This crate needs no
//! installed tools and produces the same inputs in every run. Tests that use it are therefore
//! regression tests of what fuzzing has found.

mod random;

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use random::Random;

/// The maximum length of an input. Longer inputs find nothing more.
const LONGEST: usize = 1 << 16;

/// Values that code often handles wrongly.
const EXTREMES: [&[u8]; 14] = [
    b"0",
    b"-1",
    b"1.5",
    b"255",
    b"65536",
    b"4294967295",
    b"9223372036854775808",
    b"18446744073709551615",
    b"18446744073709551616",
    b"null",
    b"\"\"",
    b"\0",
    b"\xe2\x80\xae",
    b"\xff",
];

/// Passes to `target` every seed of the fuzz target `name`, and then `count` mutated seeds. The
/// environment variable `MUTATIONS` multiplies `count`.
///
/// # Panics
///
/// Panics if there are no seeds, or `target` panics. The message contains the input.
pub fn each(name: &str, count: usize, mut target: impl FnMut(&[u8])) {
    let seeds = seeds(name);
    assert!(!seeds.is_empty(), "no seeds for {name}");
    for seed in &seeds {
        attempt(&mut target, seed);
    }
    let times = std::env::var("MUTATIONS").map_or(1, |times| times.parse().expect("a number"));
    let mut random = Random::new(name);
    for _ in 0..count * times {
        let mut input = random.one_of(&seeds).clone();
        for _ in 0..=random.below(4) {
            change(&mut input, &seeds, &mut random);
        }
        input.truncate(LONGEST);
        attempt(&mut target, &input);
    }
}

fn attempt(target: &mut impl FnMut(&[u8]), input: &[u8]) {
    if let Err(panicked) = panic::catch_unwind(AssertUnwindSafe(|| target(input))) {
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

/// The seeds, sorted by name.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let entries = fs::read_dir(directory.join(name)).expect("the seeds of a fuzz target");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a seed").path()).collect();
    paths.sort();
    let read = |path: &PathBuf| fs::read(path).expect("a seed");
    paths.iter().map(read).collect()
}

fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = input.len().min(at + 1 + random.below(16));
    match random.below(8) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.byte(),
        2 => drop(input.drain(at..end)),
        3 => input.truncate(at),
        4 => {
            let piece = input[at..end].to_vec();
            input.splice(at..at, piece.repeat(1 + random.below(8)));
        }
        5 => {
            let extreme = *random.one_of(&EXTREMES);
            let number = number_at(input, at);
            input.splice(number, extreme.iter().copied());
        }
        6 => {
            let other = random.one_of(seeds);
            let from = random.below(other.len() + 1);
            let to = other.len().min(from + 1 + random.below(64));
            input.splice(at..end, other[from..to].iter().copied());
        }
        // Inserts a line of another seed.
        _ => {
            let lines: Vec<_> = random
                .one_of(seeds)
                .split_inclusive(|b| *b == b'\n')
                .collect();
            if let Some(line) = (!lines.is_empty()).then(|| *random.one_of(&lines)) {
                let start = input[..at]
                    .iter()
                    .rposition(|b| *b == b'\n')
                    .map_or(0, |n| n + 1);
                input.splice(start..start, line.iter().copied());
            }
        }
    }
}

/// Returns the range of digits at or after `at`, or the empty range at `at` if there are none.
fn number_at(input: &[u8], at: usize) -> std::ops::Range<usize> {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    match input[at..].iter().position(is_digit) {
        Some(skipped) => {
            let start = at + skipped;
            let length = input[start..]
                .iter()
                .take_while(|byte| is_digit(byte))
                .count();
            start..start + length
        }
        None => at..at,
    }
}
