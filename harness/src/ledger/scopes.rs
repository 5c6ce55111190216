//! How many records of each scope are live, so that a clean scope ends without a search.

use std::sync::atomic::{AtomicU64, Ordering};

use super::event::ScopeId;

/// More scopes than can be open at once.
const SLOTS: usize = 4096;

/// A count for each open scope.
///
/// A slot holds the scope's number in its upper half and its count in the lower one, in one
/// atomic: a record of a scope that ended long ago can then never touch the count of the scope
/// that has its slot now.
#[derive(Debug)]
pub(super) struct ScopeCounts {
    slots: Box<[AtomicU64]>,
}

impl ScopeCounts {
    pub(super) fn new() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn slot(&self, scope: ScopeId) -> &AtomicU64 {
        &self.slots[scope.0 as usize % SLOTS]
    }

    /// Begins to count for `scope`; false when its slot is taken by a scope still open.
    pub(super) fn open(&self, scope: ScopeId) -> bool {
        let empty = |value: u64| (value == 0).then_some(u64::from(scope.0) << 32);
        self.slot(scope)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, empty)
            .is_ok()
    }

    /// Ends the count.
    pub(super) fn close(&self, scope: ScopeId) {
        let own = |value: u64| (value >> 32 == u64::from(scope.0)).then_some(0);
        // Err: it was never open, and there is nothing to end.
        let _ = self
            .slot(scope)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, own);
    }

    /// One record more; false when `scope` is not open.
    pub(super) fn add(&self, scope: ScopeId) -> bool {
        self.change(scope, |value| value + 1)
    }

    /// One record less.
    pub(super) fn remove(&self, scope: ScopeId) {
        self.change(scope, |value| value - 1);
    }

    /// How many records of `scope` are live; none when it is not open.
    pub(super) fn live(&self, scope: ScopeId) -> Option<u32> {
        let value = self.slot(scope).load(Ordering::Acquire);
        (scope != ScopeId::NONE && value >> 32 == u64::from(scope.0)).then_some(value as u32)
    }

    fn change(&self, scope: ScopeId, by: impl Fn(u64) -> u64) -> bool {
        if scope == ScopeId::NONE {
            return false;
        }
        let own = |value: u64| (value >> 32 == u64::from(scope.0)).then(|| by(value));
        self.slot(scope)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, own)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{SLOTS, ScopeCounts, ScopeId};

    #[test]
    fn a_closed_scope_s_records_do_not_touch_the_next_owner_of_its_slot() {
        let counts = ScopeCounts::new();
        let old = ScopeId(7);
        let new = ScopeId(7 + u32::try_from(SLOTS).unwrap());
        assert!(counts.open(old));
        assert!(counts.add(old));
        assert!(
            !counts.open(new),
            "the slot is taken while the old scope is open"
        );
        counts.close(old);
        assert!(counts.open(new));
        counts.remove(old);
        assert!(!counts.add(old));
        assert_eq!(counts.live(new), Some(0));
        assert_eq!(counts.live(old), None);
    }

    #[test]
    fn no_scope_counts_nothing() {
        let counts = ScopeCounts::new();
        assert!(!counts.add(ScopeId::NONE));
        assert_eq!(counts.live(ScopeId::NONE), None);
    }
}
