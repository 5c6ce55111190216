//! The activity and usage of an allocator, in the families of PyTorch's
//! [`memory_stats`](https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.memory_stats.html).

/// One figure over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The current value.
    pub current: u64,
    /// The peak since the device was created, or since the last
    /// [`reset_peak`](crate::memory::reset_peak).
    pub peak: u64,
    /// The sum of all increases.
    pub allocated: u64,
    /// The sum of all decreases.
    pub freed: u64,
}

/// One figure for each pool and for both together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatByPool {
    /// Both pools.
    pub all: Stat,
    /// The pool for blocks of up to 1 MiB.
    pub small: Stat,
    /// The pool for larger blocks.
    pub large: Stat,
}

/// Everything an allocator counts. Byte figures count whole blocks, except `requested_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks handed out and not freed.
    pub allocation: StatByPool,
    /// Segments held from the layer below.
    pub segment: StatByPool,
    /// Blocks handed out, or freed while another stream still uses them.
    pub active: StatByPool,
    /// Cached parts of segments. `empty_cache` cannot release them.
    pub inactive_split: StatByPool,
    /// The bytes of the blocks in `allocation`.
    pub allocated_bytes: StatByPool,
    /// The bytes of the segments in `segment`.
    pub reserved_bytes: StatByPool,
    /// The bytes of the blocks in `active`.
    pub active_bytes: StatByPool,
    /// The bytes of the blocks in `inactive_split`.
    pub inactive_split_bytes: StatByPool,
    /// The requested bytes of the blocks in `active`.
    pub requested_bytes: StatByPool,
    /// The number of times that the cache was emptied to serve a request.
    pub num_alloc_retries: u64,
    /// The number of requests that failed because there was no memory.
    pub num_ooms: u64,
    /// The number of segments that were allocated from the layer below.
    pub num_device_alloc: u64,
    /// The number of segments that were freed.
    pub num_device_free: u64,
}

impl Stats {
    /// The byte and count figures with PyTorch's names, in the order of its tables.
    #[must_use]
    pub fn families(&self) -> [(&'static str, &StatByPool); 9] {
        [
            ("allocated_bytes", &self.allocated_bytes),
            ("active_bytes", &self.active_bytes),
            ("requested_bytes", &self.requested_bytes),
            ("reserved_bytes", &self.reserved_bytes),
            ("inactive_split_bytes", &self.inactive_split_bytes),
            ("allocation", &self.allocation),
            ("active", &self.active),
            ("segment", &self.segment),
            ("inactive_split", &self.inactive_split),
        ]
    }
}
