//! Scopes as the ledger counts for them: opened under a number that no open one has, and closed.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::check::recording;
use crate::ledger::{self, Returned, ScopeId};

/// Opens a scope of its own.
pub(super) fn open() -> ScopeId {
    number(|scope| ledger::live().open_scope(scope), None)
}

/// Opens a part of the open scope `outer`: see [`part`](super::members::part).
pub(super) fn open_part(outer: ScopeId) -> ScopeId {
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
            // After all numbers it begins anew, and a scope may have been open for so long.
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
