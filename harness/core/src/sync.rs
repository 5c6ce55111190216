//! What threads of the ledger, the gate and the exclusion meet at, all of it `std`'s.
//!
//! Named here once so that `tests/interleavings` can compile the same files with a checker's types
//! instead, which try one interleaving of the threads after the other.

pub use lock::{Lock, LockGuard};
pub use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// Atomic integers and the orders of their operations.
pub mod atomic {
    pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
}

/// A lock that is free nearly always, and held for some dozen instructions.
mod lock {
    use std::time::Duration;

    use spin::mutex::{SpinMutex, SpinMutexGuard};

    /// To give it back is a plain store, where `std`'s pays a second time for an atomic exchange.
    #[derive(Debug, Default)]
    pub struct Lock<T>(SpinMutex<T>);

    /// Gives the lock back when it is dropped.
    pub type LockGuard<'a, T> = SpinMutexGuard<'a, T>;

    impl<T> Lock<T> {
        /// A lock that nobody holds.
        #[must_use]
        pub const fn new(value: T) -> Self {
            Self(SpinMutex::new(value))
        }

        /// Also after a panic of who held it: who changes more than one thing under a lock must
        /// not panic between.
        #[inline]
        pub fn lock(&self) -> LockGuard<'_, T> {
            self.0.try_lock_weak().unwrap_or_else(|| self.wait())
        }

        /// Waits for as long as another processor needs; then, since the owner may be waiting for
        /// this one, without it; and then asleep: a thread that the scheduler prefers to the owner
        /// (`SCHED_FIFO` and its like) gets a processor back as soon as it has yielded it.
        #[cold]
        #[inline(never)]
        fn wait(&self) -> LockGuard<'_, T> {
            /// Several of the scheduler's turns.
            const YIELDS: u32 = 64;
            /// What a sleep takes at least, at the default slack of its timer.
            const NAP: Duration = Duration::from_micros(50);

            let mut waited = 0;
            loop {
                for _ in 0..32 {
                    std::hint::spin_loop();
                }
                // Looks before it asks: to ask takes the owner's cache line away.
                let free = (!self.0.is_locked()).then(|| self.0.try_lock()).flatten();
                if let Some(guard) = free {
                    return guard;
                }
                if waited < YIELDS {
                    waited += 1;
                    std::thread::yield_now();
                } else {
                    std::thread::sleep(NAP);
                }
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use std::thread;

        use super::Lock;

        /// Miri takes a thousand times as long.
        const ROUNDS: u64 = if cfg!(miri) { 100 } else { 10_000 };

        #[test]
        fn threads_that_wait_lose_no_turn() {
            let total = Lock::new(0_u64);
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..ROUNDS {
                            let mut total = total.lock();
                            let before = *total;
                            // Gives the processor away while it holds the lock, now and then.
                            if before.is_multiple_of(ROUNDS / 10) {
                                thread::yield_now();
                            }
                            *total = before + 1;
                        }
                    });
                }
            });
            assert_eq!(*total.lock(), 4 * ROUNDS);
        }
    }
}
