//! Where events come from: CUPTI's callbacks, and whoever reports through
//! [`observe`](crate::observe).

pub(crate) mod cupti;
pub(crate) mod quiet;
pub(crate) mod thread;
mod unwind;

use crate::ledger::event::{Caller, ScopeId, StackId};
use crate::ledger::{self};

/// Who is calling, with the stack; none while the harness itself is at work on this thread.
pub(crate) fn caller() -> Option<Caller> {
    let _quiet = quiet::quiet_if_heard()?;
    Some(Caller {
        stack: stack(),
        ..caller_without_stack()
    })
}

/// Who is calling, where the line does not matter.
fn caller_without_stack() -> Caller {
    Caller {
        thread: thread::number(),
        // A token is a scope's number; one that does not fit is not ours.
        scope: ScopeId(u32::try_from(gpu_leak_check_threads::token()).unwrap_or_default()),
        stack: StackId::default(),
    }
}

/// This thread's stack, interned.
fn stack() -> StackId {
    let mut frames = [0; unwind::DEPTH];
    let count = unwind::capture(&mut frames);
    ledger::live().stacks().intern(&frames[..count])
}
