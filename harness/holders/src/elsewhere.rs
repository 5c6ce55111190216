//! Replaces the search on systems where the layout of the heap and the stacks is unknown.

use std::ops::Range;
use std::time::Duration;

use super::{Answer, DriverObjects, Enclosing, Program, Target, Unknown};

/// Finds nothing.
pub fn find(
    _: Vec<Target>,
    groups: usize,
    _: DriverObjects,
    _: Program<'_>,
    _: Duration,
) -> Vec<Answer> {
    vec![Err(Unknown::Unreadable); groups]
}

/// Finds nothing.
pub const fn words_with(_: u64, _: &[Range<u64>], _: Duration) -> Vec<u64> {
    Vec::new()
}

/// Finds nothing.
pub fn enclosing(
    _: Vec<Target>,
    groups: usize,
    _: &[Range<u64>],
    _: Duration,
) -> Vec<Option<Enclosing>> {
    vec![None; groups]
}
