//! The counters of an allocator. A request updates only those that cannot be derived; the rest are
//! computed when the statistics are read.

use super::size::PoolKind;
use super::stats::{Stat, StatByPool, Stats};

/// The figures counted by pool: the families of [`Stats`].
///
/// The first eight, which a request or a free can change, share a cache line of each [`StatRow`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum StatFamily {
    Allocation,
    AllocatedBytes,
    RequestedBytes,
    InactiveSplit,
    InactiveSplitBytes,
    Active,
    ActiveBytes,
    ReservedBytes,
    Segment,
}

const FAMILIES: usize = 1 + StatFamily::Segment as usize;

/// One value for each family. A thread that locks the allocator waits for the cache lines that the
/// previous thread has written, so values that are written together are stored together.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct StatRow([u64; FAMILIES]);

/// The figures of one pool.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    current: StatRow,
    /// The sum of all increases since the totals were reset.
    added: StatRow,
    /// The figures when the totals were reset.
    start: StatRow,
    peak: StatRow,
}

/// The counters of an allocator; see [`Stats`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tallies {
    /// The figures of each pool, indexed by [`PoolKind`].
    parts: [Part; 2],
    /// The peaks of both pools together, which cannot be derived from the peaks of each.
    peak: StatRow,
    /// Whether the families of active blocks are counted. Until a block may outlive its free, their
    /// figures equal the figures of allocated blocks.
    counts_active: bool,
    pub(crate) num_alloc_retries: u64,
    pub(crate) num_ooms: u64,
    pub(crate) num_device_alloc: u64,
    pub(crate) num_device_free: u64,
}

impl Part {
    fn stat(&self, family: StatFamily) -> Stat {
        let (current, added) = (self.current[family], self.added[family]);
        Stat {
            current,
            peak: self.peak[family],
            allocated: added,
            freed: self.start[family] + added - current,
        }
    }

    fn rows(&mut self) -> [&mut StatRow; 4] {
        let Self {
            current,
            added,
            start,
            peak,
        } = self;
        [current, added, start, peak]
    }
}

impl Tallies {
    /// Counts a block that was handed out.
    #[inline]
    pub(crate) fn handed_out(&mut self, kind: PoolKind, size: usize, requested: usize) {
        self.increase(kind, StatFamily::Allocation, 1);
        self.increase(kind, StatFamily::AllocatedBytes, size);
        self.increase(kind, StatFamily::RequestedBytes, requested);
        if self.counts_active {
            self.increase(kind, StatFamily::Active, 1);
            self.increase(kind, StatFamily::ActiveBytes, size);
        }
    }

    /// Counts a block that was freed.
    #[inline]
    pub(crate) fn freed(&mut self, kind: PoolKind, size: usize) {
        self.decrease(kind, StatFamily::Allocation, 1);
        self.decrease(kind, StatFamily::AllocatedBytes, size);
    }

    /// Counts a freed block that became unused, either at its free or when other streams no longer
    /// use it.
    #[inline]
    pub(crate) fn retired(&mut self, kind: PoolKind, size: usize, requested: usize) {
        self.decrease(kind, StatFamily::RequestedBytes, requested);
        if self.counts_active {
            self.decrease(kind, StatFamily::Active, 1);
            self.decrease(kind, StatFamily::ActiveBytes, size);
        }
    }

    /// Must be called before a block can outlive its free.
    pub(crate) fn count_active(&mut self) {
        if !std::mem::replace(&mut self.counts_active, true) {
            let [small, large] = &mut self.parts;
            let rows = [small, large].map(Part::rows).into_iter().flatten();
            for row in rows.chain([&mut self.peak]) {
                row[StatFamily::Active] = row[StatFamily::Allocation];
                row[StatFamily::ActiveBytes] = row[StatFamily::AllocatedBytes];
            }
        }
    }

    /// Counts cached parts of segments that were joined, split, or handed out, given their number
    /// and bytes before and afterwards. The states in between do not affect the peak.
    #[inline]
    pub(crate) fn split_changed(
        &mut self,
        kind: PoolKind,
        before: (usize, usize),
        after: (usize, usize),
    ) {
        self.change(kind, StatFamily::InactiveSplit, before.0, after.0);
        self.change(kind, StatFamily::InactiveSplitBytes, before.1, after.1);
    }

    /// Counts a segment that was allocated from the layer below.
    pub(crate) fn segment_taken(&mut self, kind: PoolKind, bytes: usize) {
        self.increase(kind, StatFamily::Segment, 1);
        self.increase(kind, StatFamily::ReservedBytes, bytes);
        self.num_device_alloc += 1;
    }

    /// Counts a segment that was freed.
    pub(crate) fn segment_returned(&mut self, kind: PoolKind, bytes: usize) {
        self.decrease(kind, StatFamily::Segment, 1);
        self.decrease(kind, StatFamily::ReservedBytes, bytes);
        self.num_device_free += 1;
    }

    /// The current value for both pools together.
    #[inline]
    pub(crate) fn current(&self, family: StatFamily) -> u64 {
        self.parts[0].current[family] + self.parts[1].current[family]
    }

    #[inline]
    fn increase(&mut self, kind: PoolKind, family: StatFamily, amount: usize) {
        let part = &mut self.parts[kind as usize];
        part.current[family] += amount as u64;
        part.added[family] += amount as u64;
        // Peaks are written only when they rise, so that their cache lines need not move between
        // processors.
        if part.current[family] > part.peak[family] {
            part.peak[family] = part.current[family];
        }
        let both = self.current(family);
        if both > self.peak[family] {
            self.peak[family] = both;
        }
    }

    #[inline]
    fn decrease(&mut self, kind: PoolKind, family: StatFamily, amount: usize) {
        let current = &mut self.parts[kind as usize].current[family];
        debug_assert!(*current >= amount as u64, "a figure fell below zero");
        *current -= amount as u64;
    }

    #[inline]
    fn change(&mut self, kind: PoolKind, family: StatFamily, before: usize, after: usize) {
        if after > before {
            self.increase(kind, family, after - before);
        } else if before > after {
            self.decrease(kind, family, before - after);
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let (active, active_bytes) = if self.counts_active {
            (StatFamily::Active, StatFamily::ActiveBytes)
        } else {
            (StatFamily::Allocation, StatFamily::AllocatedBytes)
        };
        Stats {
            allocation: self.stat(StatFamily::Allocation),
            segment: self.stat(StatFamily::Segment),
            active: self.stat(active),
            inactive_split: self.stat(StatFamily::InactiveSplit),
            allocated_bytes: self.stat(StatFamily::AllocatedBytes),
            reserved_bytes: self.stat(StatFamily::ReservedBytes),
            active_bytes: self.stat(active_bytes),
            inactive_split_bytes: self.stat(StatFamily::InactiveSplitBytes),
            requested_bytes: self.stat(StatFamily::RequestedBytes),
            num_alloc_retries: self.num_alloc_retries,
            num_ooms: self.num_ooms,
            num_device_alloc: self.num_device_alloc,
            num_device_free: self.num_device_free,
        }
    }

    fn stat(&self, family: StatFamily) -> StatByPool {
        let [small, large] = [0, 1].map(|part: usize| self.parts[part].stat(family));
        StatByPool {
            all: Stat {
                current: small.current + large.current,
                peak: self.peak[family],
                allocated: small.allocated + large.allocated,
                freed: small.freed + large.freed,
            },
            small,
            large,
        }
    }

    pub(crate) fn reset_peak(&mut self) {
        for part in &mut self.parts {
            part.peak = part.current;
        }
        let [small, large] = self.parts.map(|part| part.current.0);
        self.peak = StatRow(std::array::from_fn(|family| small[family] + large[family]));
    }

    pub(crate) fn reset_accumulated(&mut self) {
        for part in &mut self.parts {
            (part.added, part.start) = (StatRow::default(), part.current);
        }
        self.num_alloc_retries = 0;
        self.num_ooms = 0;
        self.num_device_alloc = 0;
        self.num_device_free = 0;
    }
}

indexed!(StatRow, |this, family: StatFamily| -> u64 {
    this.0[family as usize]
});
