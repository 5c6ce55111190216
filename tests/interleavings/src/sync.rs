//! The harness's `sync`, of types whose every step the checker orders.
//!
//! What the checker does not have is `std`'s: a `OnceLock` is one step then. The order of steps is
//! all that is tried; what processors may see of each other later than that (`Relaxed`) is not.

pub(crate) use std::sync::OnceLock;

pub(crate) use shuttle::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use condvar::{Condvar, waits, waits_anew};
pub(crate) use lock::{Lock, LockGuard};

pub(crate) mod atomic {
    pub(crate) use shuttle::sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    };
}

/// A lock is a lock, however one waits for it.
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

/// The checker's, and how often anyone began to wait: a scenario can let a thread stand in line
/// before the next one comes.
mod condvar {
    use std::cell::Cell;
    use std::time::Duration;

    use shuttle::sync::{LockResult, MutexGuard, WaitTimeoutResult};

    thread_local! {
        /// All threads of one run share this one: to the system they are one thread.
        static WAITS: Cell<usize> = const { Cell::new(0) };
    }

    /// How many waits have begun.
    pub(crate) fn waits() -> usize {
        WAITS.get()
    }

    /// Begins to count anew.
    pub(crate) fn waits_anew() {
        WAITS.set(0);
    }

    #[derive(Debug)]
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

        pub(crate) fn wait_while<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            condition: impl FnMut(&mut T) -> bool,
        ) -> LockResult<MutexGuard<'a, T>> {
            self.0.wait_while(guard, condition)
        }

        /// Never out of time: who would wait for ever is a deadlock, which the checker tells.
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
