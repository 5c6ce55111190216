//! Code that all sources of events need: the caller, the backtrace, and the recording.
//!
//! Every source holds the [recursion guard](crate::recursion_guard::try_quiet) from its entry until
//! the ledger has received the event, because allocations that are made while an event is handled
//! must not become events.

#[cfg(feature = "holders")]
pub(crate) mod heap;
pub(crate) mod history;
pub(crate) mod modules;
pub(crate) mod record;
pub(crate) mod recording;
#[cfg(any(test, fuzzing, feature = "command"))]
pub(crate) mod replay;
pub(crate) mod thread;
mod unwind;

pub use unwind::{Reader, install};
#[cfg(feature = "holders")]
pub(crate) use unwind::{trace, walk_waiting};

use std::sync::atomic::{AtomicBool, Ordering};

use crate::ledger;
use crate::ledger::event::{Caller, CuResult, Event, ScopeId, StackId, Ticket};
use crate::recursion_guard::quiet;

/// Returns the caller, with a backtrace.
#[inline]
pub(crate) fn caller() -> Caller {
    let caller = caller_without_stack();
    let is_outside = match caller.scope {
        ScopeId::NONE => gpu_leak_interpose::token() == 0,
        // Such a thread is in `allow`.
        scope => scope == ScopeId::NOBODY,
    };
    if is_outside {
        thread::creates_outside(caller.thread);
    }
    Caller {
        stack: stack(),
        ..caller
    }
}

/// Returns the caller without a backtrace. This is for frees, which almost always succeed, and for
/// which a backtrace would cost more than everything else.
#[inline]
pub(crate) fn caller_without_stack() -> Caller {
    Caller {
        thread: thread::number(),
        // A token is the ID of a scope. A token that is too large for an ID was not set by the
        // harness.
        scope: ScopeId(u32::try_from(gpu_leak_interpose::token()).unwrap_or_default()),
        stack: StackId::default(),
    }
}

/// Whether frees capture backtraces. They do so only while a run confirms findings, because almost
/// all frees succeed.
static STACKS_OF_FREES: AtomicBool = AtomicBool::new(false);

/// Sets whether frees capture backtraces from now on.
pub(crate) fn take_stacks_of_frees(take: bool) {
    STACKS_OF_FREES.store(take, Ordering::Relaxed);
}

#[inline]
pub(crate) fn freeing_caller() -> Caller {
    let caller = caller_without_stack();
    match STACKS_OF_FREES.load(Ordering::Relaxed) {
        true => Caller {
            stack: stack(),
            ..caller
        },
        false => caller,
    }
}

/// Returns the event for the end of a free. A backtrace costs more than everything else in a free,
/// and a free that succeeds does not need one.
pub(crate) fn free_ended(ticket: Ticket, error: CuResult) -> Event {
    let stack = match error {
        0 => StackId::default(),
        _ => stack(),
    };
    Event::FreeEnded {
        ticket,
        error,
        stack,
    }
}

/// Whether backtraces are captured. Only a benchmark switches them off.
static STACKS: AtomicBool = AtomicBool::new(true);

/// Stops capturing backtraces, so that a benchmark can measure what they cost.
pub(crate) fn without_stacks() {
    STACKS.store(false, Ordering::Relaxed);
}

/// Captures and interns this thread's backtrace.
#[inline]
pub(crate) fn stack() -> StackId {
    match STACKS.load(Ordering::Relaxed) {
        true => interned_stack(),
        false => StackId::default(),
    }
}

#[inline(never)]
fn interned_stack() -> StackId {
    let _quiet = quiet();
    history::refresh();
    unwind::stack(ledger::live().stacks())
}

/// Captures this thread's backtrace with the exact unwinder alone. This needs little stack space,
/// whereas the quick unwinder first creates a large cache. A benchmark also uses this for
/// comparison.
pub(crate) fn exact_stack() -> StackId {
    let _quiet = quiet();
    history::refresh();
    unwind::exact_stack(ledger::live().stacks())
}
