//! The targets of a search.

use super::Target;

/// Smaller values are assumed to be numbers, not addresses.
pub(super) const LOWEST: u64 = 1 << 32;
/// All addresses of a program are smaller than this.
const END: u64 = 1 << 56;

/// Whether a word may be the address of something in the program.
// This is called for every word that is read, so it is inlined even in builds without optimisation.
#[inline(always)]
#[expect(
    clippy::manual_range_contains,
    reason = "the method would be a call in an unoptimised build"
)]
pub(super) fn may_be_address(word: u64) -> bool {
    LOWEST <= word && word < END
}

impl Target {
    /// Whether the target can be distinguished from a number.
    fn is_sought(&self) -> bool {
        may_be_address(self.first.address()) && self.values != 0
    }
}

/// All targets, searchable by value.
#[derive(Debug, Default)]
pub(super) struct Targets {
    /// The targets, sorted by first value. No two of them overlap.
    sorted: Vec<Target>,
}

impl Targets {
    /// Creates a list of those targets that can be distinguished from a number.
    pub(super) fn new(mut all: Vec<Target>) -> Self {
        all.retain(Target::is_sought);
        all.sort_by_key(|target| (target.first.address(), target.group));
        all.dedup_by(|next, known| next.first.address() < known.range().end);
        Self { sorted: all }
    }

    /// Returns, for each of the `groups` groups, whether it has no target or has a target that
    /// cannot be searched for.
    pub(super) fn groups_without(all: &[Target], groups: usize) -> Vec<bool> {
        let mut without = vec![true; groups];
        for target in all {
            without[target.group] = false;
        }
        for target in all.iter().filter(|target| !target.is_sought()) {
            without[target.group] = true;
        }
        without
    }

    pub(super) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Returns the index of the target to which `value` refers.
    pub(super) fn find(&self, value: u64) -> Option<usize> {
        let next = self
            .sorted
            .partition_point(|target| target.first.address() <= value);
        let at = next.checked_sub(1)?;
        self.sorted[at].range().contains(&value).then_some(at)
    }

    pub(super) fn group(&self, at: usize) -> usize {
        self.sorted[at].group
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Hidden;
    use super::{Target, Targets};

    #[test]
    fn a_value_is_found_by_every_address_inside_and_none_outside() {
        let target = |first: u64, bytes, group| Target {
            first: Hidden::of(first),
            values: bytes,
            group,
        };
        let base = 1 << 40;
        let all = vec![
            target(base + 100, 10, 1),
            target(base, 1, 0),
            target(7, 100, 2),
        ];
        assert_eq!(Targets::groups_without(&all, 4), [false, false, true, true]);
        let targets = Targets::new(all);
        let group = |value| targets.find(value).map(|at| targets.group(at));
        assert_eq!((group(base), group(base + 1)), (Some(0), None));
        assert_eq!((group(base + 99), group(base + 100)), (None, Some(1)));
        assert_eq!((group(base + 109), group(base + 110)), (Some(1), None));
        assert_eq!((group(8), group(0), group(u64::MAX)), (None, None, None));
    }
}
