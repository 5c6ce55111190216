//! What was mapped where when a stack was taken.
//!
//! Libraries go, and others take their addresses. Whose code a return address is, and with it many a
//! verdict, follows only from what was mapped at that time: neither from what is there when a report
//! is made, nor from what an earlier report has found at the address.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::mappings;
use super::modules::Modules;
use crate::device::dl::{self, Changes};
use crate::ledger;
use crate::ledger::event::StackId;

static HISTORY: Mutex<History> = Mutex::new(History {
    changes: None,
    eras: Vec::new(),
    stacks: Vec::new(),
});

/// A stack that was met in none.
const NO_ERA: u32 = u32::MAX;

/// A stack that is new takes more memory than an era, which is a list of what it shares with the one
/// before: so none is ever forgotten.
#[derive(Debug)]
struct History {
    /// As of the last era.
    changes: Option<Changes>,
    /// What was mapped from one change to the next, as far as they were noticed.
    eras: Vec<Arc<Modules>>,
    /// In which of them each stack was first met, by its number.
    stacks: Vec<u32>,
}

/// A stack is new. To be called before what it lies in can go: by the thread whose stack it is.
#[cold]
pub(super) fn met(stack: StackId) {
    // The loader is asked before the lock is taken: a constructor may make a call of CUDA's in there.
    let changes = dl::changes();
    let mut history = lock();
    history.note(changes, mappings::of_this_process);
    history.met(stack);
}

/// What was mapped when the stack `raw` was new, and what is now.
pub(crate) fn modules_of(raw: &[usize]) -> (Arc<Modules>, Arc<Modules>) {
    let stack = ledger::live().stacks().find(raw);
    let changes = dl::changes();
    let mut history = lock();
    history.note(changes, mappings::of_this_process);
    let now = history.now();
    let then = stack.and_then(|stack| history.era_of(stack));
    (then.unwrap_or_else(|| now.clone()), now)
}

fn lock() -> MutexGuard<'static, History> {
    HISTORY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl History {
    /// Begins an era if the loader has loaded or unloaded something since the last one did.
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
mod tests {
    use super::{Changes, History, StackId};

    const PROGRAM: &str = "1000-5000 r-xp 00000000 08:01 11 /w/train\n";
    const RUNTIME: &str = "8000-9000 r-xp 00000000 08:01 12 /opt/libcudart.so.13\n";
    const PLUGIN: &str = "8000-9800 r-xp 00000000 08:01 13 /w/libplugin.so\n";

    #[test]
    fn code_at_the_address_of_what_has_gone_is_its_own() {
        let mut history = History {
            changes: None,
            eras: Vec::new(),
            stacks: Vec::new(),
        };
        let changes = |loaded, unloaded| -> Changes { (loaded, unloaded) };
        history.note(changes(2, 0), || [PROGRAM, RUNTIME].concat());
        history.met(StackId(1));
        history.note(changes(2, 0), || panic!("nothing has changed"));
        history.note(changes(2, 1), || PROGRAM.to_owned());
        history.note(changes(3, 1), || [PROGRAM, PLUGIN].concat());
        for stack in [2, 1] {
            history.met(StackId(stack));
        }
        let at = |stack, address| {
            let modules = history.era_of(StackId(stack)).expect("it was met");
            modules.find(address).expect("a module").clone()
        };
        assert_eq!(at(1, 0x8010).name(), "libcudart.so.13");
        assert_eq!(at(2, 0x8010).name(), "libplugin.so");
        let now = history.now();
        assert!(!now.has(&at(1, 0x8010)) && now.has(&at(2, 0x8010)));
        // What stayed is one and the same.
        assert!(now.has(&at(1, 0x2000)));
        assert_eq!(history.era_of(StackId(3)), None, "nobody met it");
    }

    #[test]
    fn a_file_that_was_built_anew_is_another() {
        let mut history = History {
            changes: None,
            eras: Vec::new(),
            stacks: Vec::new(),
        };
        let anew = PLUGIN.replace(" 13 ", " 14 ");
        let changes = |loaded, unloaded| -> Changes { (loaded, unloaded) };
        history.note(changes(1, 0), || PLUGIN.to_owned());
        let before = history.now().find(0x8010).expect("a module").clone();
        history.note(changes(2, 1), || anew);
        assert!(!history.now().has(&before));
    }
}
