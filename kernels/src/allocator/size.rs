//! The sizes of the caching allocator. They are PyTorch's, so that its figures match to the byte.
//!
//! Source: the constants documented at the top of PyTorch's
//! [`CUDACachingAllocator`](https://github.com/pytorch/pytorch/blob/v2.11.0/c10/cuda/CUDACachingAllocator.cpp).

/// Every block size is a multiple of this.
pub(super) const GRANULE: usize = 512;
/// The largest block of the small pool.
pub(super) const SMALL_LIMIT: usize = 1 << 20;
/// The size of the segments of the small pool.
const SMALL_SEGMENT: usize = 2 << 20;
/// Blocks of this size or more get their own segment.
const OWN_SEGMENT_FROM: usize = 10 << 20;
/// The size of the segments that the other blocks of the large pool share.
const LARGE_SEGMENT: usize = 20 << 20;
/// The size of a segment with a single block is a multiple of this.
const OWN_SEGMENT_GRANULE: usize = 2 << 20;

/// The largest request that this arithmetic supports. No device has that much memory.
pub(crate) const REQUEST_LIMIT: usize = isize::MAX as usize;

/// The pools keep blocks of up to 1 MiB apart from larger ones, so that small blocks do not
/// fragment the large segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PoolKind {
    /// Blocks of up to 1 MiB, from segments of 2 MiB.
    Small,
    /// Blocks above 1 MiB.
    Large,
}

impl PoolKind {
    /// The pool that serves blocks of `size` bytes.
    #[inline]
    pub(crate) fn of(size: usize) -> Self {
        if size <= SMALL_LIMIT {
            Self::Small
        } else {
            Self::Large
        }
    }
}

/// Whether an allocator caches freed memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Requests share segments, and freed memory waits for the next request.
    #[default]
    Caching,
    /// Each request and each free is passed to the layer below. This is slow, but the layer
    /// below sees every tensor. It corresponds to PyTorch's `PYTORCH_NO_CUDA_MEMORY_CACHING=1`.
    Direct,
}

impl Policy {
    /// The size of the block for a request of `bytes`, from 1 to [`REQUEST_LIMIT`].
    #[inline]
    pub(crate) fn block(self, bytes: usize) -> usize {
        match self {
            Self::Caching => bytes.next_multiple_of(GRANULE),
            Self::Direct => bytes,
        }
    }

    /// The size of the segment to allocate from the layer below for a block of `size` bytes.
    pub(crate) fn segment(self, size: usize) -> usize {
        match self {
            Self::Direct => size,
            Self::Caching if size <= SMALL_LIMIT => SMALL_SEGMENT,
            Self::Caching if size < OWN_SEGMENT_FROM => LARGE_SEGMENT,
            Self::Caching => size.next_multiple_of(OWN_SEGMENT_GRANULE),
        }
    }
}
