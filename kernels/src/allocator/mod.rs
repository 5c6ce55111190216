//! The caching allocator of a device, like PyTorch's: it allocates segments from the layer below,
//! splits them into blocks, and keeps freed blocks for later requests. It handles streams, but no
//! device.

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
