//! Limits the duration of a search.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A time limit in wall-clock time, because the search also delays a report on a busy machine. Once
/// the time has run out, the limit stays exceeded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    end: Duration,
    now: fn() -> Duration,
}

impl Budget {
    /// Creates a limit of `time` from now on.
    pub(super) fn new(time: Duration) -> Self {
        Self::by(clock, time)
    }

    /// Creates a limit of `time` by the clock `now`, counted from the clock's current value.
    pub(super) fn by(now: fn() -> Duration, time: Duration) -> Self {
        Self {
            end: now().saturating_add(time),
            now,
        }
    }

    /// Creates a limit of an eighth of the remaining time, but at most `most`.
    pub(super) fn part(self, most: Duration) -> Self {
        let left = self.end.saturating_sub((self.now)());
        Self::by(self.now, most.min(left / 8))
    }

    /// Whether the time is over.
    pub(super) fn is_spent(&self) -> bool {
        (self.now)() >= self.end
    }
}

/// Returns the time since the first call in this process.
fn clock() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
