//! The data that is kept for each open scope in addition to its records.

use std::collections::BTreeMap;

use super::quiet_lock::lock_quietly;
use crate::sync::Mutex;

use rustc_hash::FxHashMap;

use super::event::{Creation, ScopeId};
use super::name::Place;
use super::usage::Amount;

#[derive(Debug, Default)]
struct ScopeState {
    /// The event with which the scope began.
    since: u64,
    /// The amount of the resources that existed before the scope and that the scope freed.
    freed_earlier: Amount,
    /// The amount of the resources that the scope created and handed over.
    handed_over: Amount,
    /// For each device, how many times the scope retained the primary context, minus how many times
    /// the scope released that context. Primary contexts are shared by the whole process, so a
    /// retain without a release is not a leak, but it deserves a note.
    primaries: BTreeMap<Place, i64>,
}

#[derive(Debug, Default)]
pub struct OpenScopes(Mutex<FxHashMap<ScopeId, ScopeState>>);

impl OpenScopes {
    pub(super) fn open(&self, scope: ScopeId, since: u64) {
        let state = ScopeState {
            since,
            ..ScopeState::default()
        };
        lock_quietly(&self.0).insert(scope, state);
    }

    /// Closes a scope. Returns the amount of the resources that existed before the scope and that
    /// the scope freed.
    pub(super) fn close(&self, scope: ScopeId) -> Amount {
        let closed = lock_quietly(&self.0).remove(&scope);
        closed.map_or_else(Amount::default, |closed| closed.freed_earlier)
    }

    /// Returns when a scope began, if it is open.
    pub(super) fn since(&self, scope: ScopeId) -> Option<u64> {
        Some(lock_quietly(&self.0).get(&scope)?.since)
    }

    /// Records that a scope freed a resource that another scope created with the event `sequence`.
    /// A nested scope may have freed a resource of an outer one.
    pub(super) fn freed(&self, scope: ScopeId, sequence: u64, made: &Creation) {
        let mut open = lock_quietly(&self.0);
        if let Some(open) = open.get_mut(&scope).filter(|open| sequence < open.since) {
            open.freed_earlier.add(made.bytes);
        }
    }

    /// Records that a scope handed over its own resource. Returns whether the scope is open.
    pub(super) fn handed_over(&self, made: &Creation) -> bool {
        let mut open = lock_quietly(&self.0);
        let open = open.get_mut(&made.caller.scope);
        open.map(|open| open.handed_over.add(made.bytes)).is_some()
    }

    /// Changes how many times the scope holds the primary context on `place`.
    pub(super) fn primary_changed(&self, scope: ScopeId, place: Place, by: i64) {
        if let Some(open) = lock_quietly(&self.0).get_mut(&scope) {
            let sum = open.primaries.entry(place).or_default();
            *sum = sum.saturating_add(by);
        }
    }

    /// Returns the amount of resources that the scopes satisfying `wanted` have created and handed
    /// over.
    pub fn all_handed_over(&self, wanted: impl Fn(ScopeId) -> bool) -> Amount {
        let open = lock_quietly(&self.0);
        let wanted = open.iter().filter(|(scope, _)| wanted(**scope));
        wanted.map(|(_, it)| it.handed_over).sum()
    }

    /// Returns the devices whose primary contexts the scopes satisfying `wanted` have together
    /// retained more often than released, with the difference.
    pub fn primaries_kept(&self, wanted: impl Fn(ScopeId) -> bool) -> Vec<(Place, u64)> {
        let mut sums = BTreeMap::<Place, i64>::new();
        let open = lock_quietly(&self.0);
        let wanted = open.iter().filter(|(scope, _)| wanted(**scope));
        for (place, by) in wanted.flat_map(|(_, it)| &it.primaries) {
            let sum = sums.entry(*place).or_default();
            *sum = sum.saturating_add(*by);
        }
        let more = |(place, sum)| Some((place, u64::try_from(sum).ok().filter(|sum| *sum != 0)?));
        sums.into_iter().filter_map(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{OpenScopes, Place, ScopeId};

    #[test]
    fn a_primary_context_retained_and_released_is_not_kept() {
        let scopes = OpenScopes::default();
        let (one, other) = (ScopeId(1), ScopeId(2));
        let (first, second) = (Place::cuda(0), Place::cuda(1));
        scopes.open(one, 1);
        scopes.open(other, 1);
        for (scope, place, by) in [
            (one, first, 1),
            (one, first, 1),
            (other, first, -1),
            (one, second, 1),
            (one, second, -1),
            (other, second, -1),
            (ScopeId::NONE, second, 1),
        ] {
            scopes.primary_changed(scope, place, by);
        }
        let kept = |wanted: &dyn Fn(ScopeId) -> bool| scopes.primaries_kept(wanted);
        assert_eq!(kept(&|_| true), [(first, 1)], "by all together");
        assert_eq!(kept(&|scope| scope == one), [(first, 2)]);
        assert_eq!(kept(&|scope| scope == other), []);
        scopes.close(one);
        assert_eq!(kept(&|_| true), []);
    }
}
