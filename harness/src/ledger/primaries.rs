//! How often each open scope has retained primary contexts, and released them.
//!
//! A primary context is shared by the whole process, so a retain without its release is no leak of
//! whoever made it; it is worth a word all the same.

use std::collections::BTreeMap;

use crate::sync::{Mutex, MutexGuard, PoisonError};

use super::event::ScopeId;
use super::name::Place;

/// Retains less releases, by scope and device. Both are rare.
#[derive(Debug, Default)]
pub(super) struct Primaries(Mutex<BTreeMap<(ScopeId, Place), i64>>);

impl Primaries {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(ScopeId, Place), i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An open scope holds the primary context on `place` so many times more.
    pub(super) fn changed(&self, scope: ScopeId, place: Place, by: i64) {
        let mut all = self.lock();
        let sum = all.entry((scope, place)).or_default();
        *sum = sum.saturating_add(by);
    }

    /// A scope is closed: nobody asks for it any more.
    pub(super) fn closed(&self, scope: ScopeId) {
        let mut all = self.lock();
        let places = (scope, Place::UNKNOWN)..=(scope, Place::at(Place::LIMIT));
        let of_it: Vec<_> = all.range(places).map(|(key, _)| *key).collect();
        for key in of_it {
            all.remove(&key);
        }
    }

    /// Where the scopes that `wanted` likes have together retained more than they have released.
    pub(super) fn kept(&self, wanted: impl Fn(ScopeId) -> bool) -> Vec<(Place, u64)> {
        let mut sums = BTreeMap::<Place, i64>::new();
        for ((scope, place), by) in &*self.lock() {
            if wanted(*scope) {
                let sum = sums.entry(*place).or_default();
                *sum = sum.saturating_add(*by);
            }
        }
        let more = |(place, sum)| Some((place, u64::try_from(sum).ok().filter(|sum| *sum != 0)?));
        sums.into_iter().filter_map(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, Primaries, ScopeId};

    #[test]
    fn what_is_retained_and_released_is_not_kept() {
        let primaries = Primaries::default();
        let (one, other) = (ScopeId(1), ScopeId(2));
        let (first, second) = (Place::cuda(0), Place::cuda(1));
        for (scope, place, by) in [
            (one, first, 1),
            (one, first, 1),
            (other, first, -1),
            (one, second, 1),
            (one, second, -1),
            (other, second, -1),
        ] {
            primaries.changed(scope, place, by);
        }
        assert_eq!(primaries.kept(|_| true), [(first, 1)], "by all together");
        assert_eq!(primaries.kept(|scope| scope == one), [(first, 2)]);
        assert_eq!(primaries.kept(|scope| scope == other), []);
        primaries.closed(one);
        assert_eq!(primaries.kept(|_| true), []);
    }
}
