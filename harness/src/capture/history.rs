//! Records which modules were mapped when a backtrace was captured.
//!
//! Libraries are unloaded, and others take their addresses. The owner of a return address, which
//! affects many verdicts, depends on the mappings at the time of the backtrace. It depends neither
//! on the mappings when a report is made nor on the result of an earlier report for the address.

use std::sync::Arc;

use super::mappings;
use super::modules::Modules;
use crate::device::dl::{self, Changes};
use crate::ledger;
use crate::ledger::event::StackId;
use crate::sync::{Mutex, locked};

static HISTORY: Mutex<History> = Mutex::new(History {
    changes: None,
    eras: Vec::new(),
    stacks: Vec::new(),
});

/// The era of a backtrace that was not recorded.
const NO_ERA: u32 = u32::MAX;

/// Eras are never removed. An era shares most of its modules with the previous one, so it takes
/// less memory than a new backtrace.
#[derive(Debug)]
struct History {
    /// The loader's counts as of the last era.
    changes: Option<Changes>,
    /// The mappings between one noticed change and the next.
    eras: Vec<Arc<Modules>>,
    /// The era in which each backtrace was first seen, by its number.
    stacks: Vec<u32>,
}

/// Records a new backtrace. Call it on the thread of that backtrace, before any of its modules can
/// be unloaded.
#[cold]
pub(super) fn met(stack: StackId) {
    // The loader is called before the lock is taken: it may be running a constructor that calls
    // CUDA.
    let changes = dl::changes();
    let mut history = locked(&HISTORY);
    history.note(changes, mappings::of_this_process);
    history.met(stack);
}

/// Returns the modules that were mapped when the backtrace `raw` was new, and those that are now.
pub(crate) fn modules_of(raw: &[usize]) -> (Arc<Modules>, Arc<Modules>) {
    let stack = ledger::live().stacks().find(raw);
    let changes = dl::changes();
    let mut history = locked(&HISTORY);
    history.note(changes, mappings::of_this_process);
    let now = history.now();
    let then = stack.and_then(|stack| history.era_of(stack));
    (then.unwrap_or_else(|| now.clone()), now)
}

impl History {
    /// Begins an era if the loader has loaded or unloaded something since the last one began.
    fn note(&mut self, changes: Changes, maps: impl FnOnce() -> String) {
        if self.changes == Some(changes) {
            return;
        }
        self.changes = Some(changes);
        let mut modules = Modules::parse(&maps());
        if let Some(before) = self.eras.last() {
            modules.share(before);
            if modules == **before {
                return;
            }
        }
        self.eras.push(Arc::new(modules));
    }

    fn met(&mut self, stack: StackId) {
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
