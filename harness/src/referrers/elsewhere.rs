//! The search where nobody knows how heap and stacks are laid out.

use std::time::Duration;

use super::{Handles, Target};
use crate::report::model::Referrer;

/// Finds nothing.
pub(super) fn find(
    _: Vec<Target>,
    _: usize,
    _: Handles,
    _: Duration,
) -> Option<Vec<Option<Vec<Referrer>>>> {
    None
}
