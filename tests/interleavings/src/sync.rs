//! A replacement for the harness's `sync`, with types that the checker interleaves.
//!
//! Types that the checker lacks, such as `OnceLock`, are those of `std`, and each of their
//! operations is a single step. Only the order of steps is explored, not the weaker visibility that
//! processors allow (`Relaxed`).

pub(crate) use std::sync::OnceLock;

pub(crate) use shuttle::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use condvar::{Condvar, waits, waits_anew};
pub(crate) use lock::{Lock, LockGuard};

pub(crate) mod atomic {
    pub(crate) use shuttle::sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    };
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The checker decides how a thread waits for a lock.
mod lock {
    use super::{Mutex, MutexGuard, PoisonError};

    #[derive(Debug, Default)]
    pub(crate) struct Lock<T>(Mutex<T>);

    pub(crate) type LockGuard<'a, T> = MutexGuard<'a, T>;

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> LockGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

/// The checker's type with a count of the waits that have begun, so that a scenario can let one
/// thread queue before the next one arrives.
mod condvar {
    use std::cell::Cell;
    use std::time::Duration;

    use shuttle::sync::{LockResult, MutexGuard, WaitTimeoutResult};

    thread_local! {
        /// All threads of a run share this value, because they are a single thread of the operating
        /// system.
        static WAITS: Cell<usize> = const { Cell::new(0) };
    }

    /// The number of waits that have begun.
    pub(crate) fn waits() -> usize {
        WAITS.get()
    }

    /// Resets the count of waits.
    pub(crate) fn waits_anew() {
        WAITS.set(0);
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(shuttle::sync::Condvar);

    impl Condvar {
        pub(crate) const fn new() -> Self {
            Self(shuttle::sync::Condvar::new())
        }

        pub(crate) fn wait<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
        ) -> LockResult<MutexGuard<'a, T>> {
            WAITS.set(WAITS.get() + 1);
            self.0.wait(guard)
        }

        /// Never times out. A thread that waits forever is a deadlock, which the checker reports.
        pub(crate) fn wait_timeout_while<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            patience: Duration,
            condition: impl FnMut(&mut T) -> bool,
        ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
            self.0.wait_timeout_while(guard, patience, condition)
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
