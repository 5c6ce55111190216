//! Figures that many threads change at once: each group of threads has a copy of its own, and who
//! reads adds the copies up. An atomic that all threads write costs each of them what the others
//! do.

use super::event::ThreadNumber;

/// A power of two, no less than the threads that usually allocate at once.
pub(super) const STRIPES: usize = 16;

/// Which copy is this thread's.
pub(super) fn stripe(thread: ThreadNumber) -> usize {
    thread.0 as usize % STRIPES
}
