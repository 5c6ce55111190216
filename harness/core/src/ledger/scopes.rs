//! What is kept of each open scope beside its records.

use std::collections::BTreeMap;

use crate::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::event::{Creation, ScopeId};
use super::name::Place;

/// So many, of so many bytes: of what is live, or of what a site had left after a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// How many.
    pub count: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Amount {
    /// One more, of `bytes`.
    pub fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// What is left of this without `other`.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_sub(other.count),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// Whether it is nothing.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.count == 0 && self.bytes == 0
    }

    /// Whether this is more than `other`, in number or in bytes.
    #[must_use]
    pub const fn exceeds(self, other: Self) -> bool {
        self.count > other.count || self.bytes > other.bytes
    }
}

/// An open scope.
#[derive(Debug)]
struct ScopeState {
    /// When it began.
    since: u64,
    /// What it freed that was there before it.
    freed_earlier: Amount,
    /// What it made and handed over.
    handed_over: Amount,
    /// How often it retained primary contexts, less its releases. They are shared by the whole
    /// process, so a retain without its release is no leak, and worth a note all the same.
    primaries: BTreeMap<Place, i64>,
}

/// The open scopes.
#[derive(Debug, Default)]
pub(super) struct OpenScopes(Mutex<FxHashMap<ScopeId, ScopeState>>);

impl OpenScopes {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<ScopeId, ScopeState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a scope, unless it is open; whether it was not.
    pub(super) fn open(&self, scope: ScopeId, since: u64) -> bool {
        let mut open = self.lock();
        let is_new = !open.contains_key(&scope);
        if is_new {
            open.insert(
                scope,
                ScopeState {
                    since,
                    freed_earlier: Amount::default(),
                    handed_over: Amount::default(),
                    primaries: BTreeMap::new(),
                },
            );
        }
        is_new
    }

    /// Closes it; what it freed that was there before it.
    pub(super) fn close(&self, scope: ScopeId) -> Amount {
        let closed = self.lock().remove(&scope);
        closed.map_or_else(Amount::default, |closed| closed.freed_earlier)
    }

    pub(super) fn has(&self, scope: ScopeId) -> bool {
        self.lock().contains_key(&scope)
    }

    /// When it began, if it is open.
    pub(super) fn since(&self, scope: ScopeId) -> Option<u64> {
        Some(self.lock().get(&scope)?.since)
    }

    /// A scope has freed what was made with the event `sequence`, by another one: one scope's work
    /// may be another's inside it.
    pub(super) fn freed(&self, scope: ScopeId, sequence: u64, made: &Creation) {
        let mut open = self.lock();
        if let Some(open) = open.get_mut(&scope).filter(|open| sequence < open.since) {
            open.freed_earlier.add(made.bytes);
        }
    }

    /// The scope has handed over what it made. Whether it is open.
    pub(super) fn handed_over(&self, made: &Creation) -> bool {
        let mut open = self.lock();
        let open = open.get_mut(&made.caller.scope);
        open.map(|open| open.handed_over.add(made.bytes)).is_some()
    }

    /// The scope holds the primary context on `place` so many times more.
    pub(super) fn primary_changed(&self, scope: ScopeId, place: Place, by: i64) {
        if let Some(open) = self.lock().get_mut(&scope) {
            let sum = open.primaries.entry(place).or_default();
            *sum = sum.saturating_add(by);
        }
    }

    /// What the scopes that `wanted` likes have made and handed over.
    pub(super) fn all_handed_over(&self, wanted: impl Fn(ScopeId) -> bool) -> Amount {
        let open = self.lock();
        let wanted = open.iter().filter(|(scope, _)| wanted(**scope));
        wanted.fold(Amount::default(), |sum, (_, it)| sum.plus(it.handed_over))
    }

    /// Where the scopes that `wanted` likes have together retained more than they have released.
    pub(super) fn primaries_kept(&self, wanted: impl Fn(ScopeId) -> bool) -> Vec<(Place, u64)> {
        let mut sums = BTreeMap::<Place, i64>::new();
        for (_, open) in self.lock().iter().filter(|(scope, _)| wanted(**scope)) {
            for (place, by) in &open.primaries {
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
    use super::{OpenScopes, Place, ScopeId};

    #[test]
    fn what_is_retained_and_released_is_not_kept() {
        let scopes = OpenScopes::default();
        let (one, other) = (ScopeId(1), ScopeId(2));
        let (first, second) = (Place::cuda(0), Place::cuda(1));
        assert!(scopes.open(one, 1) && scopes.open(other, 1));
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
