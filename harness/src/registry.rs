//! The annotated tests of this program, wherever they stand.

use crate::case::Case;

/// A test that registered itself.
#[derive(Debug)]
pub struct Registered(pub &'static Case);

inventory::collect!(Registered);

/// All of them, by path: registration has no order of its own.
#[must_use]
pub fn cases() -> Vec<&'static Case> {
    let mut cases: Vec<_> = inventory::iter::<Registered>()
        .map(|entry| entry.0)
        .collect();
    cases.sort_by_key(|case| case.path);
    cases
}
