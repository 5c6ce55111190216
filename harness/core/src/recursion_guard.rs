//! The recursion guard: the harness must never observe itself.
//!
//! While a thread holds the guard, wrappers and reports that are called on this thread return
//! immediately. Without it, a driver call made by a reading would enter the ledger, and an
//! allocator that reports through `observe` and is also used by the harness would wait for a lock
//! that its own thread holds. So the guard must be taken before any lock that an event needs; the
//! ledger's own functions do so.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    /// The number of guards that this thread holds. A number needs no destructor, so it can be used
    /// while the thread's other locals are being destroyed.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A guard for the harness's own work on this thread. Guards nest.
#[derive(Debug)]
pub struct RecursionGuard {
    /// A guard that is dropped on another thread would change the wrong count.
    _stays_on_its_thread: PhantomData<*const ()>,
}

impl Drop for RecursionGuard {
    #[inline]
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Takes the guard for this thread.
///
/// Hold it only around the harness's own driver calls and bookkeeping, never around user code (a
/// test's body, a probe): allocations and frees by that code must be seen.
#[must_use = "if the guard is not kept, the recursion protection ends immediately"]
#[inline]
pub fn quiet() -> RecursionGuard {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    RecursionGuard {
        _stays_on_its_thread: PhantomData,
    }
}

/// Takes the guard unless this thread already holds it.
#[must_use = "if the guard is not kept, the recursion protection ends immediately"]
#[inline]
pub fn try_quiet() -> Option<RecursionGuard> {
    DEPTH.with(|depth| {
        if depth.get() != 0 {
            return None;
        }
        depth.set(1);
        Some(RecursionGuard {
            _stays_on_its_thread: PhantomData,
        })
    })
}

/// Whether this thread holds the guard.
#[must_use]
#[inline]
pub fn is_quiet() -> bool {
    DEPTH.get() != 0
}

#[cfg(test)]
mod tests {
    use super::{quiet, try_quiet};

    #[test]
    fn guards_nest_and_end_with_the_last() {
        assert!(try_quiet().is_some());
        let outer = quiet();
        let inner = quiet();
        drop(outer);
        assert!(try_quiet().is_none());
        drop(inner);
        assert!(try_quiet().is_some());
    }

    #[test]
    fn a_guard_does_not_affect_other_threads() {
        let _mine = quiet();
        assert!(std::thread::spawn(|| try_quiet().is_some()).join().unwrap());
    }
}
