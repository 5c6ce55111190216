//! The targets of a search.

use std::iter;

use crate::Target;

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

/// All targets, searchable by value. Targets may overlap: a leaked segment contains the leaked
/// blocks of its allocator.
#[derive(Debug, Default)]
pub(super) struct Targets {
    /// The targets, sorted by first value.
    sorted: Vec<Target>,
    /// For each target, the index of the nearest target before it that ends later.
    longer: Vec<Option<usize>>,
}

impl Targets {
    /// Creates a list of those targets that can be distinguished from a number.
    pub(super) fn new(mut all: Vec<Target>) -> Self {
        all.retain(Target::is_sought);
        all.sort_by_key(|target| (target.first.address(), target.group, target.values));
        // Several objects may have the same handle.
        all.dedup();
        let mut longer: Vec<Option<usize>> = Vec::new();
        for (at, target) in all.iter().enumerate() {
            let mut before = at.checked_sub(1);
            while let Some(other) = before.filter(|it| all[*it].range().end <= target.range().end) {
                before = longer[other];
            }
            longer.push(before);
        }
        Self {
            sorted: all,
            longer,
        }
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

    /// Returns the indices of the targets to which `value` refers, the last one first.
    pub(super) fn find(&self, value: u64) -> impl Iterator<Item = usize> {
        let next = self
            .sorted
            .partition_point(|target| target.first.address() <= value);
        let mut next = next.checked_sub(1);
        iter::from_fn(move || {
            // If a target ends before the value, so do the targets between it and a longer one.
            while let Some(at) = next.filter(|at| self.sorted[*at].range().end <= value) {
                next = self.longer[at];
            }
            let found = next?;
            next = found.checked_sub(1);
            Some(found)
        })
    }

    pub(super) fn group(&self, at: usize) -> usize {
        self.sorted[at].group
    }
}

#[cfg(test)]
mod tests {
    use super::{Target, Targets};
    use crate::Hidden;

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
        let group = |value| targets.find(value).map(|at| targets.group(at)).next();
        assert_eq!((group(base), group(base + 1)), (Some(0), None));
        assert_eq!((group(base + 99), group(base + 100)), (None, Some(1)));
        assert_eq!((group(base + 109), group(base + 110)), (Some(1), None));
        assert_eq!((group(8), group(0), group(u64::MAX)), (None, None, None));
    }

    #[test]
    fn a_value_refers_to_every_target_around_it() {
        let target = |first: u64, values, group| Target {
            first: Hidden::of(first),
            values,
            group,
        };
        let base = 1 << 40;
        let all = vec![
            target(base, 100, 0),
            target(base, 10, 1),
            target(base + 20, 10, 2),
            target(base + 20, 10, 2),
            target(base + 90, 20, 3),
            target(base + 110, 10, 4),
        ];
        let targets = Targets::new(all);
        let groups = |value| targets.find(value).map(|at| targets.group(at));
        let groups = |value| groups(base + value).collect::<Vec<_>>();
        assert_eq!((groups(0), groups(9)), (vec![1, 0], vec![1, 0]));
        assert_eq!((groups(10), groups(25)), (vec![0], vec![2, 0]));
        assert_eq!((groups(95), groups(105)), (vec![3, 0], vec![3]));
        assert_eq!((groups(110), groups(120)), (vec![4], vec![]));
    }
}
