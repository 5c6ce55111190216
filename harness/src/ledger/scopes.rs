//! How many records of each scope are live, so that a clean scope ends without a search.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use super::event::ScopeId;
use super::stripes::Stripes;

/// One stripe's part of the count of each open scope: below nothing where its threads have freed
/// what others took.
#[derive(Debug, Default)]
pub(super) struct Open(FxHashMap<ScopeId, i64>);

impl Open {
    /// Whether `scope` is open.
    pub(super) fn has(&self, scope: ScopeId) -> bool {
        self.0.contains_key(&scope)
    }

    /// So many records of `scope` more; nothing where it is not open.
    pub(super) fn change(&mut self, scope: ScopeId, by: i64) {
        if let Some(count) = self.0.get_mut(&scope) {
            *count += by;
        }
    }
}

impl Stripes {
    /// Begins to count for `scope`; false when that is open already.
    pub(super) fn open(&self, scope: ScopeId) -> bool {
        match self.first().scopes.0.entry(scope) {
            Entry::Occupied(_) => return false,
            Entry::Vacant(entry) => entry.insert(0),
        };
        // Who got the first has them all: they are given back in the opposite order.
        for mut own in self.each().skip(1) {
            own.scopes.0.insert(scope, 0);
        }
        true
    }

    /// Ends the count.
    pub(super) fn close(&self, scope: ScopeId) {
        for mut own in self.each().rev() {
            own.scopes.0.remove(&scope);
        }
    }

    /// How many records of `scope` are live; none when it is not open.
    pub(super) fn live(&self, scope: ScopeId) -> Option<u32> {
        // At different moments, what others take and give back meanwhile could hide what is left.
        let all = self.at_once();
        let counts = all.iter().map(|own| own.scopes.0.get(&scope).copied());
        let count: Option<i64> = counts.sum();
        count.map(|count| u32::try_from(count.max(0)).unwrap_or(u32::MAX))
    }

    /// Whether `scope` is open.
    pub(super) fn is_open(&self, scope: ScopeId) -> bool {
        self.first().scopes.has(scope)
    }
}

#[cfg(test)]
mod tests {
    use super::{ScopeId, Stripes};
    use crate::ledger::event::ThreadNumber;

    fn change(stripes: &Stripes, thread: u32, scope: ScopeId, by: i64) {
        stripes.of(ThreadNumber(thread)).scopes.change(scope, by);
    }

    #[test]
    fn records_of_every_thread_count_whoever_releases_them() {
        let stripes = Stripes::new();
        let scope = ScopeId(3);
        assert!(stripes.open(scope));
        assert!(!stripes.open(scope), "it is open");
        for thread in 0..40 {
            change(&stripes, thread, scope, 1);
        }
        for _ in 0..20 {
            change(&stripes, 17, scope, -1);
        }
        assert_eq!(stripes.live(scope), Some(20));
        stripes.close(scope);
        assert_eq!(stripes.live(scope), None);
    }

    #[test]
    fn any_number_of_scopes_is_open_at_once() {
        let stripes = Stripes::new();
        let scopes = || (1..=20_000).map(ScopeId);
        for scope in scopes() {
            assert!(stripes.open(scope));
            change(&stripes, 1, scope, i64::from(scope.0));
        }
        for scope in scopes() {
            assert_eq!(stripes.live(scope), Some(scope.0));
            stripes.close(scope);
        }
        assert!(scopes().all(|scope| !stripes.is_open(scope)));
    }

    #[test]
    fn a_scope_that_is_not_open_counts_nothing() {
        let stripes = Stripes::new();
        for scope in [ScopeId::NONE, ScopeId(7)] {
            change(&stripes, 1, scope, 1);
            assert!(!stripes.is_open(scope));
            assert_eq!(stripes.live(scope), None);
        }
        // Its records do not count for the next one of its number either.
        assert!(stripes.open(ScopeId(7)));
        assert_eq!(stripes.live(ScopeId(7)), Some(0));
    }
}
