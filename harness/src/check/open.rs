//! Scopes that are open: their numbers, and which of them a thread works for.

use std::sync::atomic::{AtomicU32, Ordering};

use gpu_leak_check_threads as threads;

use super::{family, recording};
use crate::ledger::{self, Returned, ScopeId};

/// Whether this thread works for a check that is under way. A thread of a pool may still have the
/// token of one that is over.
pub(crate) fn is_inside_a_check() -> bool {
    current().is_some()
}

/// The open scope that this thread works for.
pub(crate) fn current() -> Option<ScopeId> {
    let scope = u32::try_from(threads::token()).map(ScopeId);
    family::open_scope(scope.ok()?)
}

/// A scope that is counted for, until it is dropped.
#[derive(Debug)]
pub(super) struct Open {
    scope: ScopeId,
    told: bool,
}

impl Open {
    /// A new one, inside the one of this thread if there is one.
    pub(super) fn new() -> Self {
        let outer = current();
        let scope = number(|scope| ledger::live().open_scope(scope), None);
        if let Some(outer) = outer {
            family::join(scope, outer);
        }
        Self { scope, told: false }
    }

    /// Its number.
    pub(super) fn scope(&self) -> ScopeId {
        self.scope
    }

    /// Ends the count of a scope that has been judged.
    pub(super) fn close(mut self) -> Returned {
        self.told = true;
        family::judged(self.scope);
        let mut returned = close(self.scope);
        let by_parts = family::close_parts(self.scope);
        returned.count += by_parts.count;
        returned.bytes += by_parts.bytes;
        returned
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.told {
            family::abandoned(self.scope);
            close(self.scope);
            family::close_parts(self.scope);
        }
    }
}

/// Opens a part of the open scope `outer`: see [`family::part`].
pub(super) fn part(outer: ScopeId) -> ScopeId {
    number(|scope| ledger::live().open_part(scope, outer), Some(outer))
}

/// A number that no open scope has, opened by `open` as a part of another scope or as one of its
/// own.
fn number(open: impl Fn(ScopeId) -> bool, part_of: Option<ScopeId>) -> ScopeId {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    loop {
        let scope = ScopeId(NEXT.fetch_add(1, Ordering::Relaxed));
        let is_a_scope = scope != ScopeId::NONE && scope != ScopeId::NOBODY;
        let try_it = || {
            // Its place may be that of a scope that has been open for long.
            let opened = open(scope);
            if opened {
                recording::opened(scope, part_of);
            }
            opened
        };
        if is_a_scope && ledger::live().between_events(try_it) {
            return scope;
        }
    }
}

/// Closes an open scope; what it freed that was there before it.
pub(super) fn close(scope: ScopeId) -> Returned {
    let ledger = ledger::live();
    ledger.between_events(|| {
        recording::closed(scope);
        ledger.close_scope(scope)
    })
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::{Open, is_inside_a_check, ledger, threads};

    #[test]
    fn the_token_of_a_check_that_is_over_counts_for_nothing() {
        let open = Open::new();
        let outer = threads::set_token(u64::from(open.scope().0));
        let while_open = is_inside_a_check();
        open.close();
        let afterwards = is_inside_a_check();
        threads::set_token(outer);
        assert_eq!((while_open, afterwards), (true, false));
    }

    #[test]
    fn a_panic_inside_leaves_no_scope_open() {
        let mut scope = None;
        let end = catch_unwind(AssertUnwindSafe(|| {
            let open = Open::new();
            scope = Some(open.scope());
            panic!("on purpose");
        }));
        assert!(end.is_err());
        assert!(!ledger::live().is_open(scope.unwrap()));
    }
}
