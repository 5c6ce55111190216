//! What threads of the ledger, the gate and the exclusion meet at, all of it `std`'s.
//!
//! Named here once so that `tests/interleavings` can compile the same files with a checker's types
//! instead, which try one interleaving of the threads after the other.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
}
