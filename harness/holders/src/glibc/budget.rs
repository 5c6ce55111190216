//! Limits the duration of a search.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A time limit by the wall clock, because the search delays a report on a busy machine too. Once
/// it has run out, it stays that way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    end: Duration,
    now: fn() -> Duration,
}

impl Budget {
    /// A limit of `time` from now on.
    pub(super) fn new(time: Duration) -> Self {
        Self::by(clock, time)
    }

    /// A limit of `time` by the clock `now`, from its current value.
    pub(super) fn by(now: fn() -> Duration, time: Duration) -> Self {
        Self {
            end: now().saturating_add(time),
            now,
        }
    }

    /// A limit of an eighth of the remaining time, but at most `most`.
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
