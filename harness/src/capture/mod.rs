//! Where events come from.

use crate::ledger::ScopeId;
use crate::ledger::event::Caller;

/// Who is calling; none while the harness itself is at work on this thread.
pub(crate) fn caller() -> Option<Caller> {
    let scope = u32::try_from(gpu_leak_check_threads::token()).unwrap_or_default();
    Some(Caller {
        scope: ScopeId(scope),
        ..Caller::default()
    })
}
