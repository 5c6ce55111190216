//! Reproducible random numbers.

/// A [SplitMix64](https://prng.di.unimi.it/splitmix64.c) generator.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates a generator that gives the same numbers for the same name, on every machine.
    pub(crate) fn new(name: &str) -> Self {
        let add = |state: u64, byte| state.wrapping_mul(31).wrapping_add(u64::from(byte));
        Self(name.bytes().fold(0, add))
    }

    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.number() % end as u64).expect("smaller than a usize")
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.number() as u8
    }

    pub(crate) fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}
