//! The highest reserves during the runs that have a limit on them.
//!
//! What a run reads at its end would not suffice. CUDA keeps one peak of each pool, which every
//! such run resets when it begins, and of an allocator with a probe, only the current reserve is
//! known, which is lost when its cache is emptied. Other checks may do both while a run is under
//! way. So before either happens, the reserves are read for all runs that watch them.

use super::readings;
use crate::judge::{LayerUsage, Usage};
use crate::ledger::ScopeId;
use crate::sync::{Mutex, locked};

/// The runs that watch the reserves, each with the highest reserves that were read.
static WATCHING: Mutex<Vec<(ScopeId, Usage)>> = Mutex::new(Vec::new());

/// A guard: while it exists, the highest reserves are kept for one run.
#[derive(Debug)]
pub(super) struct ReserveWatch(ScopeId);

impl ReserveWatch {
    pub(super) fn begin(scope: ScopeId) -> Self {
        note();
        readings::restart_most_reserved();
        locked(&WATCHING).push((scope, Usage::default()));
        Self(scope)
    }

    /// Ends the watch, and returns the highest reserves.
    pub(super) fn end(&self) -> Usage {
        note();
        let mut watching = locked(&WATCHING);
        let own = watching.iter().position(|(scope, _)| *scope == self.0);
        own.map_or_else(Usage::default, |at| watching.swap_remove(at).1)
    }
}

impl Drop for ReserveWatch {
    fn drop(&mut self) {
        locked(&WATCHING).retain(|(scope, _)| *scope != self.0);
    }
}

/// Reads the reserves for every run that watches them.
pub(super) fn note() {
    if locked(&WATCHING).is_empty() {
        return;
    }
    // The probes are not called with the lock held, because they are the program's code.
    let now = readings::most_reserved();
    for (_, most) in locked(&WATCHING).iter_mut() {
        for usage in &now.layers {
            let is_it = |it: &&mut LayerUsage| it.name == usage.name && it.place == usage.place;
            match most.layers.iter_mut().find(is_it) {
                Some(known) => known.reserved = known.reserved.max(usage.reserved),
                None => most.layers.push(usage.clone()),
            }
        }
    }
}
