//! The synchronisation primitives of the ledger, the gate, and the lock that keeps readings and
//! destroy calls apart.
//!
//! Code whose interleavings are tested imports its primitives from here, so that
//! `tests/interleavings` can compile the same files with the types of a model checker, which tries
//! one interleaving of the threads after another.

pub use lock::{Lock, LockGuard};
pub use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// Atomic integers and the orders of their operations.
pub mod atomic {
    pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
}

/// Locks `mutex` even if a previous holder panicked, since the protected data is consistent at all
/// times.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lock that is almost always free, and held for a few dozen instructions.
mod lock {
    use std::time::Duration;

    use spin::mutex::{SpinMutex, SpinMutexGuard};

    use super::{Condvar, Mutex, locked};

    /// A spin lock. Unlocking it is a plain store, whereas `std`'s lock needs a second atomic
    /// exchange.
    ///
    /// `SPINS` is the number of turns for which a thread spins at first if it finds the lock taken.
    /// The higher the number, the more often the owner can take the lock again in the meantime,
    /// which is cheaper than handing it to another thread. However, the waiting thread then waits
    /// longer.
    #[derive(Debug, Default)]
    pub struct Lock<T, const SPINS: u32 = 32>(SpinMutex<T>);

    /// Unlocks when dropped.
    pub type LockGuard<'a, T> = SpinMutexGuard<'a, T>;

    impl<T, const SPINS: u32> Lock<T, SPINS> {
        /// Creates an unlocked lock.
        #[must_use]
        pub const fn new(value: T) -> Self {
            Self(SpinMutex::new(value))
        }

        /// Locks even if a previous holder panicked, so code that changes several fields under a
        /// lock must not panic in between.
        #[inline]
        pub fn lock(&self) -> LockGuard<'_, T> {
            self.0.try_lock_weak().unwrap_or_else(|| self.wait())
        }

        /// Waits for the lock in three ways. It spins, longer each time, because the owner is
        /// probably about to lock again, which is cheap while the lock and the data it guards stay
        /// in the owner's cache. It yields in between, because the owner may be waiting for this
        /// processor. In the end, it sleeps, because a thread with a higher priority than the owner
        /// (for example under `SCHED_FIFO`) gets the processor back as soon as it has yielded.
        #[cold]
        #[inline(never)]
        fn wait(&self) -> LockGuard<'_, T> {
            /// How often a thread yields before it sleeps. This is enough for several of the
            /// scheduler's time slices.
            const YIELDS: u32 = 64;

            let mut spins = SPINS;
            let mut waited = 0;
            loop {
                for _ in 0..spins {
                    std::hint::spin_loop();
                }
                spins = (2 * spins).min(16 * SPINS);
                // This reads the lock before trying to take it, because an attempt would take the
                // cache line from the owner.
                let free = (!self.0.is_locked()).then(|| self.0.try_lock()).flatten();
                if let Some(guard) = free {
                    return guard;
                }
                if waited < YIELDS {
                    waited += 1;
                    std::thread::yield_now();
                } else {
                    nap();
                }
            }
        }
    }

    /// The shortest time that a sleep takes with the default timer slack.
    const NAP: Duration = Duration::from_micros(50);

    /// Sleeps by waiting for a notification that never comes. `thread::sleep` is a cancellation
    /// point: there, `pthread_cancel` would unwind Rust frames, which is undefined behaviour.
    fn nap() {
        static NEVER: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
        let _ = NEVER.1.wait_timeout(locked(&NEVER.0), NAP);
    }

    #[cfg(test)]
    mod tests {
        use std::thread;

        use super::Lock;

        /// There are fewer rounds under Miri, which takes a thousand times as long.
        const ROUNDS: u64 = if cfg!(miri) { 100 } else { 10_000 };

        #[test]
        fn waiting_threads_lose_no_update() {
            let total: Lock<_> = Lock::new(0_u64);
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..ROUNDS {
                            let mut total = total.lock();
                            let before = *total;
                            // Now and then, the thread yields while it holds the lock.
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
