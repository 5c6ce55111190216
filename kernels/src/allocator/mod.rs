//! The caching allocator of a device, like PyTorch's: it allocates segments from the layer below,
//! splits them into blocks, and keeps freed blocks for later requests. It handles streams, but
//! knows nothing of devices.

/// Implements `part = whole[index]`, for reading and for writing.
macro_rules! indexed {
    ($of:ty, |$this:ident, $at:ident: $index:ty| -> $part:ty { $slot:expr }) => {
        impl ::std::ops::Index<$index> for $of {
            type Output = $part;

            #[inline]
            fn index(&self, $at: $index) -> &$part {
                let $this = self;
                &$slot
            }
        }

        impl ::std::ops::IndexMut<$index> for $of {
            #[inline]
            fn index_mut(&mut self, $at: $index) -> &mut $part {
                let $this = self;
                &mut $slot
            }
        }
    };
}

mod block;
mod caching;
mod pending;
mod pool;
mod pool_id;
mod pools;
mod shared;
mod size;
mod snapshot;
mod source;
mod split;
mod stats;
mod tally;

pub use block::BlockState;
pub(crate) use caching::{Allocation, Caching};
pub use pool_id::PoolId;
pub(crate) use shared::Allocator;
pub use size::{Policy, PoolKind};
pub use snapshot::{BlockInfo, SegmentInfo, Snapshot};
pub use source::DeviceMemory;
pub(crate) use source::{SegmentError, SegmentSource};
pub use stats::{Stat, StatByPool, Stats};
