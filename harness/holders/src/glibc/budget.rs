//! Limits the duration of a search.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A limit on wall-clock time rather than processor time, because a report must not be delayed for
/// long, even on a busy machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    end: Duration,
    now: fn() -> Duration,
}

impl Budget {
    /// Creates a limit that is reached `time` from now.
    pub(super) fn new(time: Duration) -> Self {
        Self::by(clock, time)
    }

    /// Creates a limit that is reached after `time`, as measured by the clock `now`.
    pub(super) fn by(now: fn() -> Duration, time: Duration) -> Self {
        Self {
            end: now().saturating_add(time),
            now,
        }
    }

    /// Creates a limit of an eighth of the remaining time or of `most`, whichever is shorter.
    pub(super) fn part(self, most: Duration) -> Self {
        let left = self.end.saturating_sub((self.now)());
        Self::by(self.now, most.min(left / 8))
    }

    pub(super) fn is_spent(&self) -> bool {
        (self.now)() >= self.end
    }
}

/// Returns the time since this process first called this function.
fn clock() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
