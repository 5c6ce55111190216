//! How an allocator counts: a request updates only what cannot be derived; the rest is computed
//! when the statistics are read.

use super::size::PoolKind;
use super::stats::{Stat, StatByPool, Stats};

/// One figure of each pool. For both together only the peak cannot be derived from them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// By [`PoolKind`].
    parts: [Part; 2],
    peak: u64,
}

/// One figure of one pool.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    current: u64,
    peak: u64,
    /// All that was added since the totals began.
    added: u64,
    /// What there was when the totals began.
    start: u64,
}

impl Part {
    fn stat(self) -> Stat {
        Stat {
            current: self.current,
            peak: self.peak,
            allocated: self.added,
            freed: self.start + self.added - self.current,
        }
    }
}

impl Tally {
    #[inline]
    pub(crate) fn current(&self) -> u64 {
        self.parts[0].current + self.parts[1].current
    }

    #[inline]
    pub(crate) fn increase(&mut self, kind: PoolKind, amount: usize) {
        let part = &mut self.parts[kind as usize];
        part.current += amount as u64;
        part.added += amount as u64;
        part.peak = part.peak.max(part.current);
        self.peak = self.peak.max(self.current());
    }

    #[inline]
    pub(crate) fn decrease(&mut self, kind: PoolKind, amount: usize) {
        let part = &mut self.parts[kind as usize];
        debug_assert!(part.current >= amount as u64, "a figure fell below zero");
        part.current -= amount as u64;
    }

    /// Goes from `before` to `after` in one step, without a peak in between.
    #[inline]
    pub(crate) fn change(&mut self, kind: PoolKind, before: usize, after: usize) {
        if after > before {
            self.increase(kind, after - before);
        } else if before > after {
            self.decrease(kind, before - after);
        }
    }

    fn stat(self) -> StatByPool {
        let [small, large] = self.parts.map(Part::stat);
        StatByPool {
            all: Stat {
                current: small.current + large.current,
                peak: self.peak,
                allocated: small.allocated + large.allocated,
                freed: small.freed + large.freed,
            },
            small,
            large,
        }
    }

    fn reset_peak(&mut self) {
        self.peak = self.current();
        for part in &mut self.parts {
            part.peak = part.current;
        }
    }

    fn reset_accumulated(&mut self) {
        for part in &mut self.parts {
            (part.added, part.start) = (0, part.current);
        }
    }
}

/// Makes the tallies of all families, which are those of [`Stats`].
macro_rules! tallies {
    ($($family:ident),+ ; $($count:ident),+) => {
        /// What an allocator has counted; see [`Stats`].
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Tallies {
            $(pub(crate) $family: Tally,)+
            $(pub(crate) $count: u64,)+
        }

        impl Tallies {
            pub(crate) fn stats(&self) -> Stats {
                Stats {
                    $($family: self.$family.stat(),)+
                    $($count: self.$count,)+
                }
            }

            pub(crate) fn reset_peak(&mut self) {
                $(self.$family.reset_peak();)+
            }

            pub(crate) fn reset_accumulated(&mut self) {
                $(self.$family.reset_accumulated();)+
                $(self.$count = 0;)+
            }
        }
    };
}

tallies!(
    allocation,
    segment,
    active,
    inactive_split,
    allocated_bytes,
    reserved_bytes,
    active_bytes,
    inactive_split_bytes,
    requested_bytes;
    num_alloc_retries,
    num_ooms,
    num_device_alloc,
    num_device_free
);
