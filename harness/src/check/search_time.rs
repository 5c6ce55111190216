//! Limits the time that a process spends on the searches for the holders of its leaks.
//!
//! A program may have a thousand scopes that leak, and an unoptimised search in a large heap takes
//! all the time that it is given.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// All searches of a process together may take this many times as long as a single search.
const SEARCHES: u32 = 50;

/// The nanoseconds that searches have taken.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// A search in progress.
pub(super) struct Searching(Instant);

impl Searching {
    /// Begins a search that may take `time`.
    ///
    /// # Errors
    /// If earlier searches took too long, returns why nothing is searched for.
    pub(super) fn begin(time: Duration) -> Result<Self, String> {
        let limit = time.saturating_mul(SEARCHES);
        match Duration::from_nanos(TAKEN.load(Ordering::Relaxed)) < limit || limit.is_zero() {
            true => Ok(Self(Instant::now())),
            false => Err(format!(
                "the searches in this process took more than {limit:?}"
            )),
        }
    }
}

impl Drop for Searching {
    fn drop(&mut self) {
        let taken = self.0.elapsed().as_nanos() as u64;
        TAKEN.fetch_add(taken, Ordering::Relaxed);
    }
}
