//! The annotated tests and warm-ups of this program, wherever they stand.

use crate::case::Case;

/// A test that registered itself.
#[derive(Debug)]
pub struct Registered(pub &'static Case);

inventory::collect!(Registered);

/// A function that runs before the first check of a process.
#[derive(Clone, Copy, Debug)]
pub struct Warmup {
    /// Its full path, crate first.
    pub path: &'static str,
    /// The function.
    pub run: fn(),
}

/// A warm-up that registered itself.
#[derive(Debug)]
pub struct RegisteredWarmup(pub &'static Warmup);

inventory::collect!(RegisteredWarmup);

/// All warm-ups, by path: the order in which they run.
#[must_use]
pub fn warmups() -> Vec<&'static Warmup> {
    let mut warmups: Vec<_> = inventory::iter::<RegisteredWarmup>()
        .map(|entry| entry.0)
        .collect();
    warmups.sort_by_key(|warmup| warmup.path);
    warmups
}

/// All of them, by path: registration has no order of its own.
#[must_use]
pub fn cases() -> Vec<&'static Case> {
    let mut cases: Vec<_> = inventory::iter::<Registered>()
        .map(|entry| entry.0)
        .collect();
    cases.sort_by_key(|case| case.path);
    cases
}
