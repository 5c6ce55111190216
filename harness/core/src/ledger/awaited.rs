//! Records when resources of certain scopes are freed, and where if backtraces of frees are
//! captured.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use rustc_hash::FxHashSet;

use super::event::{Record, ScopeId, StackId};

/// The free of an awaited record.
#[derive(Clone, Copy, Debug)]
pub struct Released {
    /// The record that was freed.
    pub record: Record,
    /// The time of the free.
    pub at: Instant,
    /// Where it was freed; the empty backtrace if none was captured.
    pub stack: StackId,
}

/// The frees of records of awaited scopes.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    /// Reads the time of a free. Set with the first awaited scope: most processes have none, and
    /// frees are frequent.
    clock: OnceLock<fn() -> Instant>,
    seen: Mutex<AwaitedReleases>,
}

#[derive(Debug, Default)]
struct AwaitedReleases {
    scopes: FxHashSet<ScopeId>,
    released: Vec<Released>,
}

impl Awaited {
    fn lock(&self) -> MutexGuard<'_, AwaitedReleases> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records from now on each free of what these scopes created, with the time that `clock`
    /// returns. Only the clock of the first call is used.
    pub(super) fn begin(&self, scopes: &[ScopeId], clock: fn() -> Instant) {
        self.lock().scopes.extend(scopes);
        self.clock.get_or_init(|| clock);
    }

    /// Forgets these scopes and the frees of what they created.
    pub(super) fn end(&self, scopes: &[ScopeId]) {
        let mut seen = self.lock();
        seen.scopes.retain(|scope| !scopes.contains(scope));
        seen.released
            .retain(|released| !scopes.contains(&released.record.made.caller.scope));
    }

    /// Records that a record was freed.
    pub(super) fn returned(&self, record: &Record, stack: StackId) {
        if let Some(clock) = self.clock.get() {
            let mut seen = self.lock();
            if seen.scopes.contains(&record.made.caller.scope) {
                seen.released.push(Released {
                    record: *record,
                    at: clock(),
                    stack,
                });
            }
        }
    }

    /// Returns the recorded frees of records for which `wanted` holds, first one first.
    pub(super) fn released(&self, wanted: impl Fn(&Record) -> bool) -> Vec<Released> {
        let seen = self.lock();
        let released = seen
            .released
            .iter()
            .filter(|released| wanted(&released.record));
        released.copied().collect()
    }
}
