//! Who still has the address of what was left behind.
//!
//! The way of a garbage collector, with no types to help: from the program's own statics,
//! thread-locals and stacks, every word that may be the address of a heap block is followed, and
//! the place that comes nearest to a leaked address or handle is named. Advice for whoever mends
//! the leak, and no verdict: a copy of an address need not be one in use.
//!
//! Memory is read through the kernel and never by dereferencing, for a bounded time and up to a
//! bounded size. Only where glibc lays out heap and stacks; elsewhere nothing is found.

#[cfg_attr(
    not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")),
    path = "elsewhere.rs"
)]
mod glibc;

use std::ops::Range;
use std::time::Duration;

use rustc_hash::FxHashSet;

use crate::report::model::Referrer;

/// One address or handle that is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The values that mean it: of memory every address inside, of an object its handle alone.
    pub(crate) values: Range<u64>,
    /// The finding it is of.
    pub(crate) group: usize,
}

/// The driver's objects that are known, by their handles: addresses of its own blocks.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    pub(crate) contexts: FxHashSet<u64>,
    pub(crate) all: FxHashSet<u64>,
}

/// For each of `groups` findings the nearest places that lead to one of its targets; none where the
/// search, which ends after `time`, did not see everything and found nothing.
pub(crate) fn find(
    targets: Vec<Target>,
    groups: usize,
    handles: Handles,
    time: Duration,
) -> Vec<Option<Vec<Referrer>>> {
    glibc::find(targets, groups, handles, time).unwrap_or_else(|| vec![None; groups])
}
