//! What an allocator has done and holds, in the families of PyTorch's
//! [`memory_stats`](https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.memory_stats.html).

use super::size::PoolKind;

/// One figure over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Now.
    pub current: u64,
    /// The most there has been since the device was made or [`reset_peak`](super::reset_peak).
    pub peak: u64,
    /// All that was ever added.
    pub allocated: u64,
    /// All that was ever taken away.
    pub freed: u64,
}

impl Stat {
    pub(crate) fn increase(&mut self, amount: u64) {
        self.current += amount;
        self.peak = self.peak.max(self.current);
        self.allocated += amount;
    }

    pub(crate) fn decrease(&mut self, amount: u64) {
        debug_assert!(self.current >= amount, "a figure fell below zero");
        self.current -= amount;
        self.freed += amount;
    }

    /// Goes from `before` to `after` in one step, without a peak in between.
    pub(crate) fn change(&mut self, before: u64, after: u64) {
        if after >= before {
            self.increase(after - before);
        } else {
            self.decrease(before - after);
        }
    }
}

/// One figure of each pool and of both together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatByPool {
    /// Both pools.
    pub all: Stat,
    /// Blocks of up to 1 MiB.
    pub small: Stat,
    /// Larger blocks.
    pub large: Stat,
}

impl StatByPool {
    fn pool(&mut self, kind: PoolKind) -> &mut Stat {
        match kind {
            PoolKind::Small => &mut self.small,
            PoolKind::Large => &mut self.large,
        }
    }

    pub(crate) fn increase(&mut self, kind: PoolKind, amount: usize) {
        self.all.increase(amount as u64);
        self.pool(kind).increase(amount as u64);
    }

    pub(crate) fn decrease(&mut self, kind: PoolKind, amount: usize) {
        self.all.decrease(amount as u64);
        self.pool(kind).decrease(amount as u64);
    }

    pub(crate) fn change(&mut self, kind: PoolKind, before: usize, after: usize) {
        self.all.change(before as u64, after as u64);
        self.pool(kind).change(before as u64, after as u64);
    }

    fn each(&mut self, act: impl Fn(&mut Stat)) {
        act(&mut self.all);
        act(&mut self.small);
        act(&mut self.large);
    }
}

/// Everything an allocator counts. Byte figures count whole blocks, except `requested_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks handed out and not got back.
    pub allocation: StatByPool,
    /// Segments held from the layer below.
    pub segment: StatByPool,
    /// Blocks handed out, or got back while another stream still uses them.
    pub active: StatByPool,
    /// Cached pieces of segments: what `empty_cache` cannot give back.
    pub inactive_split: StatByPool,
    /// Bytes of `allocation`.
    pub allocated_bytes: StatByPool,
    /// Bytes of `segment`.
    pub reserved_bytes: StatByPool,
    /// Bytes of `active`.
    pub active_bytes: StatByPool,
    /// Bytes of `inactive_split`.
    pub inactive_split_bytes: StatByPool,
    /// Bytes that were asked for, of the blocks of `active`.
    pub requested_bytes: StatByPool,
    /// How often the cache was emptied to serve a request.
    pub num_alloc_retries: u64,
    /// How many requests failed for want of memory.
    pub num_ooms: u64,
    /// How many segments were taken from the layer below.
    pub num_device_alloc: u64,
    /// How many were given back.
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

    fn families_mut(&mut self) -> [&mut StatByPool; 9] {
        [
            &mut self.allocated_bytes,
            &mut self.active_bytes,
            &mut self.requested_bytes,
            &mut self.reserved_bytes,
            &mut self.inactive_split_bytes,
            &mut self.allocation,
            &mut self.active,
            &mut self.segment,
            &mut self.inactive_split,
        ]
    }

    pub(crate) fn reset_peak(&mut self) {
        for family in self.families_mut() {
            family.each(|stat| stat.peak = stat.current);
        }
    }

    pub(crate) fn reset_accumulated(&mut self) {
        for family in self.families_mut() {
            family.each(|stat| (stat.allocated, stat.freed) = (0, 0));
        }
        self.num_alloc_retries = 0;
        self.num_ooms = 0;
        self.num_device_alloc = 0;
        self.num_device_free = 0;
    }
}
