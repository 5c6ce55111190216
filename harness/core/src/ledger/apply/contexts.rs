//! The end of a context, and of what goes with it.

use super::{Caller, Ledger, Record};
use crate::ledger::Anomaly;
use crate::ledger::contexts::{Ending, dies_with_context};
use crate::ledger::event::{ContextEnd, ContextUid, ScopeId};

impl Ledger {
    pub(super) fn context_destroyed(&self, context: ContextUid, cause: ContextEnd, caller: Caller) {
        let ending = Ending { cause, caller };
        // Before the search: see `end_if_too_late`.
        self.contexts.destroyed(context, ending);
        let ended = self
            .table
            .take_all(|record| record.made.context == context && dies_with_context(&record.made));
        for record in ended {
            self.forget_shared(&record);
            self.ended_with_context(record, ending);
        }
    }

    /// Takes `record` out again if its context has ended before it was entered: the call that made
    /// it, or failed to free it, has then returned later than the one that ended the context. What
    /// is entered before the search for the context's records is found by that.
    pub(super) fn end_if_too_late(&self, record: &Record) -> bool {
        let made = &record.made;
        let ending = dies_with_context(made).then(|| self.contexts.ending_of(made.context));
        let Some(ending) = ending.flatten() else {
            return false;
        };
        let is_same = |there: &Record| there.sequence == record.sequence;
        if let Some(record) = self.table.take_if(&record.key(), is_same) {
            self.ended_with_context(record, ending);
        }
        true
    }

    fn ended_with_context(&self, record: Record, Ending { cause, caller }: Ending) {
        // What was made before the scope that ends the context is that scope's business neither
        // way.
        let scope = record.made.caller.scope;
        if self.scopes.has(scope) || (scope == ScopeId::NONE && self.is_all_its_own()) {
            self.anomalies.push(Anomaly::EndedWithContext {
                record,
                cause,
                caller,
            });
        }
    }
}
