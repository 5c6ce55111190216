//! A shard's counts of live records by open scope.

use rustc_hash::FxHashMap;

use crate::ledger::event::ScopeId;

/// The count of the last scope that was looked up is stored next to the map, because most events of
/// a program belong to one scope.
#[derive(Debug, Default)]
pub(in crate::ledger) struct ScopeCounts {
    last: Option<(ScopeId, i32)>,
    others: FxHashMap<ScopeId, i32>,
}

impl ScopeCounts {
    /// Begins to count for a scope.
    pub(in crate::ledger) fn open(&mut self, scope: ScopeId) {
        match self.last {
            None => self.last = Some((scope, 0)),
            Some(_) => _ = self.others.insert(scope, 0),
        }
    }

    /// Ends the count for a scope.
    pub(in crate::ledger) fn close(&mut self, scope: ScopeId) {
        if self.last.take_if(|(last, _)| *last == scope).is_none() {
            self.others.remove(&scope);
        }
    }

    /// Returns the count of a scope, or `None` if it is not open.
    pub(in crate::ledger) fn get(&self, scope: ScopeId) -> Option<i32> {
        match self.last {
            Some((last, count)) if last == scope => Some(count),
            _ => self.others.get(&scope).copied(),
        }
    }

    /// Returns the count of a scope, or `None` if it is not open.
    #[inline]
    pub(in crate::ledger) fn get_mut(&mut self, scope: ScopeId) -> Option<&mut i32> {
        if self.last.is_none_or(|(last, _)| last != scope) {
            self.look_up(scope)?;
        }
        self.last.as_mut().map(|(_, count)| count)
    }

    /// Looks up a scope other than the last one, and makes it the last one. Returns `None` if it is
    /// not open.
    #[inline(never)]
    fn look_up(&mut self, scope: ScopeId) -> Option<()> {
        let count = self.others.remove(&scope)?;
        let before = self.last.replace((scope, count));
        self.others.extend(before);
        Some(())
    }
}
