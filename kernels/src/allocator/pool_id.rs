//! The identity of a private pool.

use std::fmt;
use std::num::NonZeroU64;

/// A private pool of an allocator: the memory of one graph, like PyTorch's `MempoolId_t`. No two
/// pools of an allocator have the same identity, even if one is closed before the other opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolId(NonZeroU64);

impl PoolId {
    /// The first of an allocator.
    pub(crate) const FIRST: Self = Self(NonZeroU64::MIN);

    /// The one after this.
    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for PoolId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}
