//! Ends contexts, and the resources that end with them.

use super::{Caller, Ledger, Record};
use crate::ledger::contexts::{Ending, dies_with_context};
use crate::ledger::event::{ContextEnd, ContextUid, ScopeId};
use crate::ledger::{Anomaly, Kind};

impl Ledger {
    pub(super) fn context_destroyed(&self, context: ContextUid, cause: ContextEnd, caller: Caller) {
        let ending = Ending { cause, caller };
        // This must come before the search, as explained at `end_if_too_late`.
        self.contexts.destroyed(context, ending);
        let ended = self
            .table
            .take_all(|record| record.made.context == context && dies_with_context(&record.made));
        for record in ended {
            for earlier in self.forget_shared(&record) {
                self.ended_with_context(earlier, ending);
            }
            self.ended_with_context(record, ending);
        }
    }

    /// Removes `record` again if its context ended before it was added. This happens if the call
    /// that created the resource, or failed to free it, returned after the call that ended the
    /// context. A record that was added earlier is found by the search for the context's records.
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
        // Objects of these kinds need not be freed individually. The program should have destroyed
        // their pool.
        if matches!(record.made.kind, Kind::CommandBuffer | Kind::DescriptorSet) {
            return;
        }
        // Whoever reads the anomalies decides which check is responsible for the record's scope.
        let is_of_a_check = match record.made.caller.scope {
            ScopeId::NOBODY => false,
            ScopeId::NONE => self.is_all_its_own(),
            _ => true,
        };
        if is_of_a_check {
            self.anomalies.push(Anomaly::EndedWithContext {
                record,
                cause,
                caller,
            });
        }
    }
}
