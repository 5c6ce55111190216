//! How long a search may go on.

use std::time::{Duration, Instant};

use crate::device::clock::thread_time;

/// How many times as long as it may compute it may take, on a machine that is busy with other
/// things.
const WAITING: u32 = 5;

/// A time that ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    computed: Duration,
    at: Instant,
}

impl Budget {
    /// So much computing time of this thread, from now on.
    pub(super) fn new(time: Duration) -> Self {
        Self {
            computed: thread_time() + time,
            at: Instant::now() + time * WAITING,
        }
    }

    /// Whether this thread has used it up.
    pub(super) fn is_spent(&self) -> bool {
        thread_time() >= self.computed || Instant::now() >= self.at
    }
}
