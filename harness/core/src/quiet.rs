//! The harness must never observe itself: a mark on a thread that does the harness's own work.
//!
//! While the mark is set, callbacks and reports of that thread return at once. Without it, a call
//! to the driver made by a reading would enter the ledger, and an allocator that reports through
//! `observe` and is also used by the harness would wait for a lock that its own thread holds. So
//! whoever takes a lock that an event needs is marked first: the ledger's own functions see to that.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    /// How many guards are alive on this thread. A number needs no destructor, so the mark can be
    /// read and set while the thread's other locals are being destroyed.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// While it lives, the harness is at work on this thread. Guards nest.
#[derive(Debug)]
pub struct Quiet {
    /// The mark is this thread's: a guard dropped elsewhere would clear the wrong one.
    _stays_on_its_thread: PhantomData<*const ()>,
}

impl Drop for Quiet {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Marks this thread.
///
/// Hold it around the harness's own driver calls and bookkeeping only, never around code of the
/// user (a test's body, a probe): what that code allocates and frees must be seen.
#[must_use = "the mark ends with the guard"]
#[inline]
pub fn quiet() -> Quiet {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    Quiet {
        _stays_on_its_thread: PhantomData,
    }
}

/// Marks this thread unless it is marked already.
#[must_use = "the mark ends with the guard"]
#[inline]
pub fn quiet_if_heard() -> Option<Quiet> {
    DEPTH.with(|depth| {
        if depth.get() != 0 {
            return None;
        }
        depth.set(1);
        Some(Quiet {
            _stays_on_its_thread: PhantomData,
        })
    })
}

/// Whether this thread is marked.
#[must_use]
#[inline]
pub fn is_quiet() -> bool {
    DEPTH.get() != 0
}

#[cfg(test)]
mod tests {
    use super::{quiet, quiet_if_heard};

    #[test]
    fn guards_nest_and_end_with_the_last() {
        assert!(quiet_if_heard().is_some());
        let outer = quiet();
        let inner = quiet();
        drop(outer);
        assert!(quiet_if_heard().is_none());
        drop(inner);
        assert!(quiet_if_heard().is_some());
    }

    #[test]
    fn one_thread_s_mark_is_not_another_s() {
        let _mine = quiet();
        assert!(
            std::thread::spawn(|| quiet_if_heard().is_some())
                .join()
                .unwrap()
        );
    }
}
