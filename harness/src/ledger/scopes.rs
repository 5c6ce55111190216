//! How many records of each scope are live, so that a clean scope ends without a search.

use crate::sync::atomic::{AtomicU64, Ordering};

use super::event::{Caller, ScopeId};
use super::stripes::{STRIPES, stripe};

/// More scopes than can be open at once.
const SLOTS: usize = 4096;

/// A count for each open scope.
///
/// A slot holds the scope's number in its upper half and its count in the lower one, in one
/// atomic: a record of a scope that ended long ago can then never touch the count of the scope
/// that has its slot now. Each stripe of threads has its own slots, and a record counts in that of
/// the thread that made it, whoever releases it.
#[derive(Debug)]
pub(super) struct ScopeCounts {
    stripes: Box<[Box<[AtomicU64]>]>,
}

impl ScopeCounts {
    pub(super) fn new() -> Self {
        let slots = |_| (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self {
            stripes: (0..STRIPES).map(slots).collect(),
        }
    }

    /// The slots of `scope`, one in each stripe.
    fn slots(&self, scope: ScopeId) -> impl Iterator<Item = &AtomicU64> {
        let slot = scope.0 as usize % SLOTS;
        self.stripes.iter().map(move |slots| &slots[slot])
    }

    /// Begins to count for `scope`; false when its slot is taken by a scope still open.
    pub(super) fn open(&self, scope: ScopeId) -> bool {
        let opened = u64::from(scope.0) << 32;
        let empty = |value: u64| (value == 0).then_some(opened);
        let mut slots = self.slots(scope);
        // Who gets the first has them all: they are given back in the opposite order.
        let is_free = slots.next().is_some_and(|first| {
            first
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, empty)
                .is_ok()
        });
        if is_free {
            slots.for_each(|slot| slot.store(opened, Ordering::Release));
        }
        is_free
    }

    /// Ends the count.
    pub(super) fn close(&self, scope: ScopeId) {
        let own = |value: u64| (value >> 32 == u64::from(scope.0)).then_some(0);
        let mut slots: Vec<_> = self.slots(scope).collect();
        slots.reverse();
        for slot in slots {
            // Err: it was never open, and there is nothing to end.
            let _ = slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, own);
        }
    }

    /// One record more, made by `caller`; false when its scope is not open.
    pub(super) fn add(&self, caller: Caller) -> bool {
        self.change(caller, |value| value + 1)
    }

    /// One record less of those that `caller` made.
    pub(super) fn remove(&self, caller: Caller) {
        self.change(caller, |value| value - 1);
    }

    /// How many records of `scope` are live; none when it is not open.
    pub(super) fn live(&self, scope: ScopeId) -> Option<u32> {
        if scope == ScopeId::NONE {
            return None;
        }
        let count = |slot: &AtomicU64| {
            let value = slot.load(Ordering::Acquire);
            (value >> 32 == u64::from(scope.0)).then_some(value as u32)
        };
        self.slots(scope).map(count).sum()
    }

    /// Whether `scope` is open.
    pub(super) fn is_open(&self, scope: ScopeId) -> bool {
        self.live(scope).is_some()
    }

    fn change(&self, caller: Caller, by: impl Fn(u64) -> u64) -> bool {
        let scope = caller.scope;
        if scope == ScopeId::NONE {
            return false;
        }
        let own = |value: u64| (value >> 32 == u64::from(scope.0)).then(|| by(value));
        self.stripes[stripe(caller.thread)][scope.0 as usize % SLOTS]
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, own)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Caller, SLOTS, ScopeCounts, ScopeId};
    use crate::ledger::event::{StackId, ThreadNumber};

    fn caller(thread: u32, scope: ScopeId) -> Caller {
        Caller {
            thread: ThreadNumber(thread),
            scope,
            stack: StackId::default(),
        }
    }

    #[test]
    fn records_of_every_thread_count() {
        let counts = ScopeCounts::new();
        let scope = ScopeId(3);
        assert!(counts.open(scope));
        for thread in 0..40 {
            assert!(counts.add(caller(thread, scope)));
        }
        counts.remove(caller(17, scope));
        assert_eq!(counts.live(scope), Some(39));
        counts.close(scope);
        assert_eq!(counts.live(scope), None);
        assert!(counts.open(ScopeId(3 + u32::try_from(SLOTS).unwrap())));
    }

    #[test]
    fn a_closed_scope_s_records_do_not_touch_the_next_owner_of_its_slot() {
        let counts = ScopeCounts::new();
        let old = ScopeId(7);
        let new = ScopeId(7 + u32::try_from(SLOTS).unwrap());
        assert!(counts.open(old));
        assert!(counts.add(caller(1, old)));
        assert!(
            !counts.open(new),
            "the slot is taken while the old scope is open"
        );
        counts.close(old);
        assert!(counts.open(new));
        counts.remove(caller(1, old));
        assert!(!counts.add(caller(1, old)));
        assert_eq!(counts.live(new), Some(0));
        assert_eq!(counts.live(old), None);
    }

    #[test]
    fn no_scope_counts_nothing() {
        let counts = ScopeCounts::new();
        assert!(!counts.add(caller(1, ScopeId::NONE)));
        assert_eq!(counts.live(ScopeId::NONE), None);
    }
}
