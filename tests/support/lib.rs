//! Code that the tests share.

use std::io::Write as _;

#[cfg(doctest)]
mod book;
pub mod checked;
pub mod child;
pub mod fake;
pub mod gpu;
pub mod library;
pub mod nextest;
pub mod published;
pub mod random;

/// Prints, even if the test passes, why something was not tested.
///
/// # Panics
///
/// Panics if standard error is closed.
pub fn skipped(why: &str) {
    let line = format!("skipped: {why}\n");
    let written = std::io::stderr().write_all(line.as_bytes());
    written.expect("standard error is open");
}
