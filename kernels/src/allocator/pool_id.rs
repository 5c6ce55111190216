//! The identity of a private pool.

use std::fmt;
use std::num::NonZeroU64;

/// A private pool of an allocator: the memory of one graph, like PyTorch's `MempoolId_t`. No two
/// pools of an allocator have the same identity, even if one is closed before the other opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PoolId(NonZeroU64);

impl PoolId {
    /// The identity of an allocator's first private pool.
    pub(crate) const FIRST: Self = Self(NonZeroU64::MIN);

    /// The identity of the private pool that is opened after this one.
    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for PoolId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}
