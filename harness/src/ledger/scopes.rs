//! How many records of each scope are live, so that a clean scope ends without a search.

use super::event::ScopeId;
use super::stripes::Stripes;

/// More scopes than can be open at once.
const SLOTS: usize = 4096;

/// One stripe's part of the count of each open scope.
///
/// A slot holds the scope's number in its upper half and its count in the lower one: a record of a
/// scope that ended long ago can then never touch the count of the scope that has its slot now.
#[derive(Debug)]
pub(super) struct Slots(Box<[u64]>);

impl Slots {
    pub(super) fn new() -> Self {
        Self(vec![0; SLOTS].into())
    }

    fn slot(&mut self, scope: ScopeId) -> &mut u64 {
        &mut self.0[scope.0 as usize % SLOTS]
    }

    fn own_slot(&mut self, scope: ScopeId) -> Option<&mut u64> {
        let slot = self.slot(scope);
        (scope != ScopeId::NONE && *slot >> 32 == u64::from(scope.0)).then_some(slot)
    }

    /// Whether `scope` is open.
    pub(super) fn has(&mut self, scope: ScopeId) -> bool {
        self.own_slot(scope).is_some()
    }

    /// So many records of `scope` more; nothing where it is not open.
    pub(super) fn change(&mut self, scope: ScopeId, by: i32) {
        if let Some(slot) = self.own_slot(scope) {
            let count = (*slot as u32).wrapping_add_signed(by);
            *slot = u64::from(scope.0) << 32 | u64::from(count);
        }
    }

    /// This stripe's part, which may be less than nothing.
    fn count(&mut self, scope: ScopeId) -> Option<i64> {
        let slot = self.own_slot(scope)?;
        Some(i64::from((*slot as u32).cast_signed()))
    }
}

impl Stripes {
    /// Begins to count for `scope`; false when its slot is taken by a scope still open.
    pub(super) fn open(&self, scope: ScopeId) -> bool {
        let opened = u64::from(scope.0) << 32;
        {
            let mut first = self.first();
            let slot = first.scopes.slot(scope);
            if *slot != 0 {
                return false;
            }
            *slot = opened;
        }
        // Who got the first has them all: they are given back in the opposite order.
        for mut own in self.each().skip(1) {
            *own.scopes.slot(scope) = opened;
        }
        true
    }

    /// Ends the count.
    pub(super) fn close(&self, scope: ScopeId) {
        for mut own in self.each().rev() {
            if let Some(slot) = own.scopes.own_slot(scope) {
                *slot = 0;
            }
        }
    }

    /// How many records of `scope` are live; none when it is not open.
    pub(super) fn live(&self, scope: ScopeId) -> Option<u32> {
        // At different moments, what others take and give back meanwhile could hide what is left.
        let mut all = self.at_once();
        let count: Option<i64> = all.iter_mut().map(|own| own.scopes.count(scope)).sum();
        count.map(|count| u32::try_from(count.max(0)).unwrap_or(u32::MAX))
    }

    /// Whether `scope` is open.
    pub(super) fn is_open(&self, scope: ScopeId) -> bool {
        self.first().scopes.has(scope)
    }
}

#[cfg(test)]
mod tests {
    use super::{SLOTS, ScopeId, Stripes};
    use crate::ledger::event::ThreadNumber;

    fn change(stripes: &Stripes, thread: u32, scope: ScopeId, by: i32) {
        stripes.of(ThreadNumber(thread)).scopes.change(scope, by);
    }

    #[test]
    fn records_of_every_thread_count_whoever_releases_them() {
        let stripes = Stripes::new();
        let scope = ScopeId(3);
        assert!(stripes.open(scope));
        for thread in 0..40 {
            change(&stripes, thread, scope, 1);
        }
        for _ in 0..20 {
            change(&stripes, 17, scope, -1);
        }
        assert_eq!(stripes.live(scope), Some(20));
        stripes.close(scope);
        assert_eq!(stripes.live(scope), None);
        assert!(stripes.open(ScopeId(3 + u32::try_from(SLOTS).unwrap())));
    }

    #[test]
    fn a_closed_scope_s_records_do_not_touch_the_next_owner_of_its_slot() {
        let stripes = Stripes::new();
        let old = ScopeId(7);
        let new = ScopeId(7 + u32::try_from(SLOTS).unwrap());
        assert!(stripes.open(old));
        change(&stripes, 1, old, 1);
        assert!(
            !stripes.open(new),
            "the slot is taken while the old scope is open"
        );
        stripes.close(old);
        assert!(stripes.open(new));
        change(&stripes, 1, old, -1);
        assert!(!stripes.is_open(old));
        assert_eq!(stripes.live(new), Some(0));
        assert_eq!(stripes.live(old), None);
    }

    #[test]
    fn no_scope_counts_nothing() {
        let stripes = Stripes::new();
        change(&stripes, 1, ScopeId::NONE, 1);
        assert!(!stripes.is_open(ScopeId::NONE));
        assert_eq!(stripes.live(ScopeId::NONE), None);
    }
}
