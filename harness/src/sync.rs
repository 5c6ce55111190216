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
    use std::hint;
    use std::thread;
    use std::time::Duration;

    use spin::mutex::{SpinMutex, SpinMutexGuard};

    /// How often somebody looks while another processor may be at work.
    const SPINS: u32 = 32;
    /// How often the processor is offered to the owner, who may be waiting for this very one.
    const OFFERS: u32 = 64;
    /// And then it is left: a thread with a real-time priority offers it in vain to one without.
    const NAP: Duration = Duration::from_micros(50);

    /// To give it back is a plain store, where `std`'s pays a second time for an atomic exchange:
    /// an event takes five of them, and that was a third of its time.
    #[derive(Debug, Default)]
    pub(crate) struct Lock<T>(SpinMutex<T>);

    pub(crate) type LockGuard<'a, T> = SpinMutexGuard<'a, T>;

    impl<T> Lock<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(SpinMutex::new(value))
        }

        /// Also after a panic of who held it: who changes more than one thing under a lock must
        /// not panic between.
        #[inline]
        pub(crate) fn lock(&self) -> LockGuard<'_, T> {
            self.0.try_lock().unwrap_or_else(|| self.wait())
        }

        #[cold]
        fn wait(&self) -> LockGuard<'_, T> {
            let mut offers = 0;
            loop {
                for _ in 0..SPINS {
                    if !self.0.is_locked() {
                        break;
                    }
                    hint::spin_loop();
                }
                if let Some(guard) = self.0.try_lock() {
                    return guard;
                }
                if offers < OFFERS {
                    offers += 1;
                    thread::yield_now();
                } else {
                    thread::sleep(NAP);
                }
            }
        }
    }

    #[cfg(all(test, target_os = "linux"))]
    mod tests {
        use std::sync::mpsc;
        use std::{fs, thread};

        use super::Lock;

        /// So often is looked whether it sleeps, which it does most of the time.
        const LOOKS: u32 = 100_000;

        #[test]
        fn who_waits_long_leaves_the_processor_to_the_owner() {
            static LOCK: Lock<u32> = Lock::new(0);
            let mut owned = LOCK.lock();
            let (told, heard) = mpsc::channel();
            let waiter = thread::spawn(move || {
                told.send(fs::read_link("/proc/thread-self").unwrap())
                    .unwrap();
                *LOCK.lock()
            });
            let stat = std::path::Path::new("/proc")
                .join(heard.recv().unwrap())
                .join("stat");
            let sleeps = |stat: String| {
                let (_, fields) = stat.rsplit_once(')').unwrap();
                fields.trim_start().starts_with('S')
            };
            let mut looks = (0..LOOKS).map(|_| fs::read_to_string(&stat).unwrap());
            assert!(looks.any(sleeps), "it never sleeps");
            *owned = 7;
            drop(owned);
            assert_eq!(waiter.join().unwrap(), 7);
        }
    }
}
