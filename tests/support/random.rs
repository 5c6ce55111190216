//! Reproducible random numbers for tests that do not use proptest, and random programs.

use std::env::var;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::child::Run;

/// A [SplitMix64](https://prng.di.unimi.it/splitmix64.c) generator.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`.
    ///
    /// # Panics
    ///
    /// Panics if `end` is 0.
    #[must_use]
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % end as u64).expect("smaller than a usize")
    }

    /// Returns one of these values.
    ///
    /// # Panics
    ///
    /// Panics if there are none.
    #[must_use]
    pub fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

/// The variable that selects a program.
const PROGRAM: &str = "RANDOM_PROGRAM";
/// The variable that tells a child process which steps to run.
const CHOSEN: &str = "RANDOM_PROGRAM_STEPS";

/// Programs that consist of random steps. A test runs each program in a process of its own.
#[derive(Debug)]
pub struct Programs<'a> {
    /// The number of programs if `RANDOM_PROGRAMS` is not set.
    pub count: u64,
    /// The number of steps in each program.
    pub steps: u64,
    /// The package and the test, as they follow `-p` in a `cargo test` command.
    pub test: &'a str,
}

impl Programs<'_> {
    /// In a child process, returns the number of the program and the steps to run.
    ///
    /// # Panics
    ///
    /// Panics if the process has steps but no valid program number.
    #[must_use]
    pub fn chosen() -> Option<(u64, Vec<u64>)> {
        let steps = var(CHOSEN).ok()?;
        let steps = steps.split(',').filter_map(|step| step.parse().ok());
        Some((number(PROGRAM).expect("it is set"), steps.collect()))
    }

    /// Runs the programs. `calls` runs the given steps of a program and returns the calls if the
    /// program fails. A program that fails runs again with fewer and fewer steps.
    ///
    /// # Panics
    ///
    /// Panics with the calls of the shortest program that still fails.
    pub fn assert_pass(&self, calls: impl Fn(u64, &[u64]) -> Option<String> + Sync) {
        let numbers = match (number(PROGRAM), number("RANDOM_PROGRAMS")) {
            (Some(number), _) => number..number + 1,
            (_, count) => 0..count.unwrap_or(self.count),
        };
        let next = AtomicU64::new(numbers.start);
        let first_failure = || {
            let number = || Some(next.fetch_add(1, Ordering::Relaxed));
            let mut mine = std::iter::from_fn(number).take_while(|number| *number < numbers.end);
            mine.find_map(|number| self.shortest_failure(&calls, number))
        };
        let failures: Vec<String> = thread::scope(|scope| {
            let threads = [scope.spawn(first_failure), scope.spawn(first_failure)];
            let failures = threads.map(|thread| thread.join().expect("a result"));
            failures.into_iter().flatten().collect()
        });
        assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    }

    /// Runs a program. If it fails, leaves out steps as long as it still fails, and returns the
    /// calls of the shortest version.
    fn shortest_failure(
        &self,
        calls: impl Fn(u64, &[u64]) -> Option<String>,
        number: u64,
    ) -> Option<String> {
        let mut steps: Vec<u64> = (0..self.steps).collect();
        let mut shortest = calls(number, &steps)?;
        let mut count = steps.len() / 2;
        while count > 0 {
            let (mut start, before) = (0, steps.len());
            while start < steps.len() {
                let end = steps.len().min(start + count);
                let fewer = [&steps[..start], &steps[end..]].concat();
                match calls(number, &fewer) {
                    Some(fails) => (steps, shortest) = (fewer, fails),
                    None => start = end,
                }
            }
            if steps.len() == before {
                count /= 2;
            }
        }
        Some(format!(
            "program {number} fails:\n{shortest}\nrepeat it with {PROGRAM}={number} cargo test -p {}",
            self.test
        ))
    }
}

fn number(variable: &str) -> Option<u64> {
    let value = var(variable).ok()?;
    Some(value.parse().expect("a number"))
}

/// Runs some steps of a program in a child process. Returns whether it succeeded, and its calls:
/// the lines of standard error that begin with `> `.
pub fn run(child: Run, number: u64, steps: &[u64]) -> (bool, Vec<String>) {
    let steps: Vec<_> = steps.iter().map(u64::to_string).collect();
    let child = child.env(PROGRAM, number.to_string());
    let child = child.env(CHOSEN, steps.join(",")).run();
    let calls = child.stderr.lines().filter(|line| line.starts_with("> "));
    (child.status.success(), calls.map(str::to_owned).collect())
}

/// Like [`run`], but returns the calls only if the child fails.
#[must_use]
pub fn calls_of_failure(child: Run, number: u64, steps: &[u64]) -> Option<String> {
    let (succeeds, calls) = run(child, number, steps);
    (!succeeds).then(|| calls.join("\n"))
}
