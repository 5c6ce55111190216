//! What threads of the ledger, the gate and the exclusion meet at, all of it `std`'s.
//!
//! Named here once so that `tests/interleavings` can compile the same files with a checker's types
//! instead, which try one interleaving of the threads after the other.

pub(crate) use lock::{Lock, LockGuard};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
}

/// A lock that is free nearly always, and held for some dozen instructions.
mod lock {
    use spin::mutex::{SpinMutex, SpinMutexGuard};
    use spin::relax::RelaxStrategy;

    /// To give it back is a plain store, where `std`'s pays a second time for an atomic exchange:
    /// an event takes five of them, and that was a third of its time.
    #[derive(Debug, Default)]
    pub(crate) struct Lock<T>(SpinMutex<T, Wait>);

    pub(crate) type LockGuard<'a, T> = SpinMutexGuard<'a, T, Wait>;

    impl<T> Lock<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(SpinMutex::new(value))
        }

        /// Also after a panic of who held it: who changes more than one thing under a lock must
        /// not panic between.
        pub(crate) fn lock(&self) -> LockGuard<'_, T> {
            self.0.lock()
        }
    }

    /// How somebody waits: for as long as another processor needs, and then, since its owner may
    /// be waiting for this one, without it.
    #[derive(Debug)]
    pub(crate) struct Wait;

    impl RelaxStrategy for Wait {
        fn relax() {
            for _ in 0..32 {
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
    }
}
