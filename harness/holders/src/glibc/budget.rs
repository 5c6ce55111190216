//! How long a search may go on.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A time that ends: by the clock, for whoever waits for a report waits on a busy machine too. Once
/// it is over it stays over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    end: Duration,
    now: fn() -> Duration,
}

impl Budget {
    /// So much time from now on.
    pub(super) fn new(time: Duration) -> Self {
        Self::by(clock, time)
    }

    /// So much by this clock, from what it says now.
    pub(super) fn by(now: fn() -> Duration, time: Duration) -> Self {
        Self {
            end: now().saturating_add(time),
            now,
        }
    }

    /// Whether it is over.
    pub(super) fn is_spent(&self) -> bool {
        (self.now)() >= self.end
    }
}

/// Since this process asked first.
fn clock() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
