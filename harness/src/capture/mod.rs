//! What every source of events needs: who is calling, from which line, and what a recording has of it.
//!
//! Every source marks its thread as [quiet](crate::device::quiet::quiet_if_heard) from the moment
//! it is entered until the ledger has its event: what an event itself may allocate must not become
//! another.

pub(crate) mod history;
pub(crate) mod mappings;
pub(crate) mod modules;
pub(crate) mod record;
pub(crate) mod recording;
pub(crate) mod replay;
pub(crate) mod thread;
mod unwind;

pub use unwind::{Reader, install};
#[cfg(feature = "holders")]
pub(crate) use unwind::{Waiting, trace, walk_waiting};

use std::sync::atomic::{AtomicBool, Ordering};

use crate::ledger;
use crate::ledger::event::{Caller, ScopeId, StackId};
use crate::quiet::quiet;

/// Who is calling, with the stack.
pub(crate) fn caller() -> Caller {
    Caller {
        stack: stack(),
        ..caller_without_stack()
    }
}

/// Who is calling, where the line does not matter: a release, which is nearly always in order.
/// A stack costs more than all the rest of an event.
pub(crate) fn caller_without_stack() -> Caller {
    Caller {
        thread: thread::number(),
        // A token is a scope's number; one that does not fit is not ours.
        scope: ScopeId(u32::try_from(gpu_leak_interpose::token()).unwrap_or_default()),
        stack: StackId::default(),
    }
}

/// Whether frees take stacks: only while a run confirms findings, for nearly all frees are in order.
static STACKS_OF_FREES: AtomicBool = AtomicBool::new(false);

/// Has frees take stacks from now on, or no longer.
pub(crate) fn take_stacks_of_frees(take: bool) {
    STACKS_OF_FREES.store(take, Ordering::Relaxed);
}

/// Who is calling to free something.
pub(crate) fn freeing_caller() -> Caller {
    match STACKS_OF_FREES.load(Ordering::Relaxed) {
        true => caller(),
        false => caller_without_stack(),
    }
}

/// Whether stacks are taken. Only a benchmark ever turns them off.
static STACKS: AtomicBool = AtomicBool::new(true);

/// Takes no stacks from now on, so that a benchmark can tell their cost from the rest.
pub(crate) fn without_stacks() {
    STACKS.store(false, Ordering::Relaxed);
}

/// This thread's stack, interned.
pub(crate) fn stack() -> StackId {
    if !STACKS.load(Ordering::Relaxed) {
        return StackId::default();
    }
    let _quiet = quiet();
    unwind::stack(ledger::live().stacks())
}

/// The same from the exact engine alone, for a benchmark to compare with.
pub(crate) fn exact_stack() -> StackId {
    unwind::exact_stack(ledger::live().stacks())
}
