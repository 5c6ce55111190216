//! Records which modules were mapped when a backtrace was captured.
//!
//! A library may be unloaded, and another one may take its addresses. So the owner of a return
//! address, which affects many verdicts, is determined by the mappings at the time of the
//! backtrace. The mappings at the time of a report do not matter, and neither does what an earlier
//! report found for the same address.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::modules;
use super::modules::Modules;
use crate::ledger;
use crate::ledger::event::StackId;
use crate::loader::{self, Changes};
use crate::sync::{Mutex, MutexGuard, locked};

static HISTORY: Mutex<History> = Mutex::new(History {
    changes: None,
    eras: Vec::new(),
    stacks: Vec::new(),
});

/// The era of a backtrace that was not recorded.
const NO_ERA: u32 = u32::MAX;

/// The eras, which are never removed. An era shares most of its modules with the previous era, so
/// it takes less memory than a new backtrace.
struct History {
    /// The loader's counts when the last era began.
    changes: Option<Changes>,
    /// The modules that were mapped in each era, from one noticed change to the next.
    eras: Vec<Arc<Modules>>,
    /// The era in which each backtrace was first captured, indexed by the backtrace's ID.
    stacks: Vec<u32>,
}

/// How often libraries have been unloaded.
static UNLOADS: AtomicUsize = AtomicUsize::new(0);

/// Must be called after a library was unloaded. If another thread loads a library at the same
/// addresses before this call, backtraces through that library that are captured until then may be
/// attributed to the first one.
pub(crate) fn unloaded() {
    UNLOADS.fetch_add(1, Ordering::Relaxed);
}

/// Must be called before a backtrace is captured. If a library has been unloaded since the thread's
/// last backtrace, makes the ledger forget the backtraces through that library.
#[inline]
pub(super) fn refresh() {
    thread_local! {
        static SEEN: Cell<usize> = const { Cell::new(0) };
    }
    let unloads = UNLOADS.load(Ordering::Relaxed);
    if SEEN.replace(unloads) != unloads {
        drop(current());
    }
}

/// Records a new backtrace. Call this on the thread of that backtrace, before any of its modules
/// can be unloaded.
#[cold]
pub(super) fn record(stack: StackId) {
    current().record(stack);
}

/// Returns the modules that were mapped when this backtrace was first captured, and the modules
/// that are mapped now.
pub(crate) fn modules_of(stack: StackId) -> (Arc<Modules>, Arc<Modules>) {
    let history = current();
    let now = history.now();
    let then = history.era_of(stack);
    (then.unwrap_or_else(|| now.clone()), now)
}

/// Whether code at this address can be read.
pub(super) fn is_readable(address: usize) -> bool {
    let modules = current().now();
    modules.find(address).is_some() || modules::is_readable(address)
}

/// Returns the history with the modules that are mapped now.
#[cold]
fn current() -> MutexGuard<'static, History> {
    // The loader is called before the lock is taken, because the loader may be running a
    // constructor that calls CUDA.
    let changes = loader::changes();
    let mut history = locked(&HISTORY);
    let gone = history.note(changes, modules::read_maps);
    if gone != Modules::default() {
        let stacks = ledger::live().stacks();
        stacks.forget(|address| gone.find(address.saturating_sub(1)).is_some());
    }
    history
}

impl History {
    /// Begins a new era if the loader has loaded or unloaded something since the last era began.
    /// Returns the modules that are gone.
    fn note(&mut self, changes: Changes, maps: impl FnOnce() -> String) -> Modules {
        if self.changes == Some(changes) {
            return Modules::default();
        }
        self.changes = Some(changes);
        let mut modules = Modules::parse(&maps());
        let before = self.now();
        modules.share(&before);
        let gone = before.without(&modules);
        if modules != *before {
            self.eras.push(Arc::new(modules));
        }
        gone
    }

    fn record(&mut self, stack: StackId) {
        let index = stack.0 as usize;
        if self.stacks.len() <= index {
            self.stacks.resize(index + 1, NO_ERA);
        }
        let era = &mut self.stacks[index];
        if *era == NO_ERA {
            *era = (self.eras.len() - 1) as u32;
        }
    }

    fn era_of(&self, stack: StackId) -> Option<Arc<Modules>> {
        let era = self.stacks.get(stack.0 as usize)?;
        self.eras.get(*era as usize).cloned()
    }

    fn now(&self) -> Arc<Modules> {
        self.eras.last().cloned().unwrap_or_default()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
