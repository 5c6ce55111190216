//! Memory of a device: buffers, and the figures of the allocator that provides them. *Allocated*
//! memory has been handed out by the allocator and not freed; *reserved* memory is held from the
//! driver, whether handed out or cached. Both are in bytes and equal PyTorch's
//! `torch.cuda.memory_allocated` and `memory_reserved` for the same requests.

mod buffer;
mod figures;
mod limit;
mod print;
mod release;
mod summary;

pub use buffer::Buffer;
pub use figures::{
    allocated, device_memory, empty_cache, max_allocated, reserved, reset_accumulated, reset_peak,
    snapshot, stats, summary,
};
pub use limit::{set_memory_fraction, set_memory_limit};
pub use print::print_memory;
pub use release::{Held, Released, release};
pub use summary::Summary;

pub use crate::allocator::{
    BlockInfo, BlockState, DeviceMemory, Policy, PoolId, PoolKind, SegmentInfo, Snapshot, Stat,
    StatByPool, Stats,
};
pub use crate::stream::{Stream, StreamId};
