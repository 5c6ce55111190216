//! Logs when resources of certain scopes are freed and, if backtraces of frees are captured, where.

use std::sync::OnceLock;
use std::time::Instant;

use rustc_hash::FxHashSet;

use super::quiet_lock::lock_quietly;
use crate::sync::Mutex;

use super::event::{Caller, Key, Record, ScopeId, StackId};

/// The largest number of frees of unknown addresses that are kept. Without this limit, their number
/// would depend only on how much a program allocated before the harness began to listen.
const MOST_UNKNOWN: usize = 10_000;

/// The free of a record that belongs to a logged scope.
#[derive(Clone, Copy, Debug)]
pub struct LoggedFree {
    /// The record that was freed.
    pub record: Record,
    /// The time of the free.
    pub at: Instant,
    /// The sequence number of the ledger's next event at the time of the free.
    pub before: u64,
    /// The backtrace of the free. It is empty if none was captured.
    pub stack: StackId,
}

/// A successful free of an address that was unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFree {
    /// The address.
    pub key: Key,
    /// The caller.
    pub by: Caller,
    /// The sequence number of the event with which the call began.
    pub began: u64,
}

/// The frees of records of the logged scopes.
#[derive(Debug, Default)]
pub struct FreeLog {
    /// Reads the time of a free. It is set when the first scope is logged. Most processes log no
    /// scope, so their frees do not read the time.
    clock: OnceLock<fn() -> Instant>,
    log: Mutex<LoggedFrees>,
}

#[derive(Debug, Default)]
struct LoggedFrees {
    scopes: FxHashSet<ScopeId>,
    frees: Vec<LoggedFree>,
    /// Successful frees of unknown addresses, by callers in the logged scopes.
    unknown: Vec<UnknownFree>,
}

impl FreeLog {
    /// From now on, records each free of a resource that these scopes created, with the time that
    /// `clock` returns. Only the clock of the first call is used.
    pub fn begin(&self, scopes: &[ScopeId], clock: fn() -> Instant) {
        lock_quietly(&self.log).scopes.extend(scopes);
        self.clock.get_or_init(|| clock);
    }

    /// Forgets these scopes and the frees of their resources.
    pub fn end(&self, scopes: &[ScopeId]) {
        let mut log = lock_quietly(&self.log);
        log.scopes.retain(|scope| !scopes.contains(scope));
        log.frees
            .retain(|free| !scopes.contains(&free.record.made.caller.scope));
        log.unknown.retain(|free| !scopes.contains(&free.by.scope));
    }

    /// Whether any scope has ever been logged.
    pub(super) fn is_on(&self) -> bool {
        self.clock.get().is_some()
    }

    /// Logs that a record was freed. `next` returns the sequence number of the ledger's next event.
    pub(super) fn freed(&self, record: &Record, stack: StackId, next: impl FnOnce() -> u64) {
        if let Some(clock) = self.clock.get() {
            let mut log = lock_quietly(&self.log);
            if log.scopes.contains(&record.made.caller.scope) {
                log.frees.push(LoggedFree {
                    record: *record,
                    at: clock(),
                    before: next(),
                    stack,
                });
            }
        }
    }

    /// Logs that an unknown address was freed.
    pub(super) fn freed_unknown(&self, free: UnknownFree) {
        if self.is_on() {
            let mut log = lock_quietly(&self.log);
            if log.scopes.contains(&free.by.scope) && log.unknown.len() < MOST_UNKNOWN {
                log.unknown.push(free);
            }
        }
    }

    /// Returns the recorded frees of unknown addresses by callers in `scope`, the earliest first.
    pub fn unknown(&self, scope: ScopeId) -> Vec<UnknownFree> {
        let log = lock_quietly(&self.log);
        let unknown = log.unknown.iter().filter(|free| free.by.scope == scope);
        unknown.copied().collect()
    }

    /// Returns the recorded frees of records for which `wanted` returns `true`, the earliest first.
    pub fn frees(&self, wanted: impl Fn(&Record) -> bool) -> Vec<LoggedFree> {
        let log = lock_quietly(&self.log);
        let frees = log.frees.iter().filter(|free| wanted(&free.record));
        frees.copied().collect()
    }
}
