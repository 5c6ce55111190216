//! What certain scopes made: when it was given back, and where if stacks of frees are taken.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use rustc_hash::FxHashSet;

use super::event::{Record, ScopeId, StackId};

/// A release that was awaited.
#[derive(Clone, Copy, Debug)]
pub struct Released {
    /// What was given back.
    pub record: Record,
    /// When.
    pub at: Instant,
    /// Where; none where no stack was taken.
    pub stack: StackId,
}

/// The releases of records of awaited scopes.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    /// What tells the time of a release, from the first awaited scope on: most processes have
    /// none, and releases are frequent.
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

    /// From now on, notes each release of what was made in these scopes, with the time that
    /// `clock` tells then. The clock of the first call counts.
    pub(super) fn begin(&self, scopes: &[ScopeId], clock: fn() -> Instant) {
        self.lock().scopes.extend(scopes);
        self.clock.get_or_init(|| clock);
    }

    /// A record has been given back.
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

    /// The noted releases of records that `wanted` likes, the first one first.
    pub(super) fn released(&self, wanted: impl Fn(&Record) -> bool) -> Vec<Released> {
        let seen = self.lock();
        let released = seen
            .released
            .iter()
            .filter(|released| wanted(&released.record));
        released.copied().collect()
    }
}
