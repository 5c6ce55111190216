//! Ensures that readings of a driver object and its destruction never overlap.
//!
//! The harness reads pools, contexts and streams that the program owns. The program may destroy
//! them at any time, and the driver does not define what a call with a destroyed handle does. So a
//! destroy call first waits for readings in progress, and a reading waits for destroy calls in
//! progress.
//!
//! This is the only point at which a wrapper may wait for longer than a table access takes. A
//! reading only calls the driver, but such a call may take long:
//! [`synchronise`](super::synchronise) waits for all work of a context, and a thread that destroys
//! a context or a pool at the same time then waits for that work as well. If a host function in a
//! stream in turn waits for that thread, both are delayed.

use crate::sync::{Condvar, Mutex, PoisonError, locked};
use std::time::Duration;

/// How long a reading waits for destroy calls. A call that takes longer must itself be waiting for
/// something.
const PATIENCE: Duration = Duration::from_secs(10);

/// Guards contexts and the pools of devices.
pub(crate) static CONTEXTS_AND_POOLS: Exclusion = Exclusion::new();
/// Guards streams.
pub(crate) static STREAMS: Exclusion = Exclusion::new();

/// Keeps readings and destructions apart. At any time, any number of readings or any number of
/// destructions may be in progress, but not both.
#[derive(Debug)]
pub(crate) struct Exclusion {
    in_progress: Mutex<InProgress>,
    changed: Condvar,
}

#[derive(Debug)]
struct InProgress {
    /// The number of readings or, if negative, of destructions.
    count: i64,
    /// How many threads wait for the other kind to end. They are counted because even a
    /// notification that wakes no thread costs a system call.
    waiting: usize,
}

/// A guard of an [`Exclusion`]. When it is dropped, it adds `END` to the count of the exclusion.
#[derive(Debug)]
pub(crate) struct Guard<const END: i64>(&'static Exclusion);

/// A guard: while it exists, nothing that its [`Exclusion`] protects is destroyed.
pub(crate) type Reading = Guard<-1>;

/// A guard: while it exists, nothing that its [`Exclusion`] protects is read.
pub(crate) type Destruction = Guard<1>;

impl<const END: i64> Drop for Guard<END> {
    fn drop(&mut self) {
        let mut in_progress = locked(&self.0.in_progress);
        in_progress.count += END;
        let is_awaited = in_progress.waiting != 0;
        drop(in_progress);
        if is_awaited {
            self.0.changed.notify_all();
        }
    }
}

impl Exclusion {
    pub(crate) const fn new() -> Self {
        Self {
            in_progress: Mutex::new(InProgress {
                count: 0,
                waiting: 0,
            }),
            changed: Condvar::new(),
        }
    }

    /// Begins a reading; `None` if a destroy call does not end in time. Look up handles only after
    /// this call, because handles whose destruction began earlier are then no longer in the ledger.
    pub(crate) fn read(&'static self) -> Option<Reading> {
        let mut in_progress = locked(&self.in_progress);
        // The clock is read only if there is something to wait for.
        if in_progress.count < 0 {
            in_progress.waiting += 1;
            let waited = self
                .changed
                .wait_timeout_while(in_progress, PATIENCE, |it| it.count < 0);
            let (waited, time) = waited.unwrap_or_else(PoisonError::into_inner);
            in_progress = waited;
            in_progress.waiting -= 1;
            if time.timed_out() {
                return None;
            }
        }
        in_progress.count += 1;
        Some(Guard(self))
    }

    /// Begins a destroy call, after waiting for the readings in progress.
    pub(crate) fn destroy(&'static self) -> Destruction {
        let mut in_progress = locked(&self.in_progress);
        in_progress.waiting += 1;
        let waited = self.changed.wait_while(in_progress, |it| it.count > 0);
        let mut in_progress = waited.unwrap_or_else(PoisonError::into_inner);
        in_progress.waiting -= 1;
        in_progress.count -= 1;
        Guard(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::Exclusion;

    #[test]
    fn a_destruction_waits_for_the_reading_in_progress() {
        static EXCLUSION: Exclusion = Exclusion::new();
        let first = EXCLUSION.read().unwrap();
        let second = EXCLUSION
            .read()
            .expect("readings do not exclude each other");
        let (reported, events) = mpsc::channel();
        let destroyer = std::thread::spawn({
            let reported = reported.clone();
            move || {
                let _destruction = EXCLUSION.destroy();
                reported.send("destroyed").unwrap();
            }
        });
        drop(first);
        reported.send("still reading").unwrap();
        drop(second);
        destroyer.join().unwrap();
        assert_eq!(
            events.try_iter().collect::<Vec<_>>(),
            ["still reading", "destroyed"]
        );
    }

    #[test]
    fn a_reading_waits_for_the_destruction_in_progress() {
        static EXCLUSION: Exclusion = Exclusion::new();
        let destruction = EXCLUSION.destroy();
        let (reported, events) = mpsc::channel();
        let reader = std::thread::spawn({
            let reported = reported.clone();
            move || {
                let _reading = EXCLUSION.read().unwrap();
                reported.send("read").unwrap();
            }
        });
        reported.send("destroyed").unwrap();
        drop(destruction);
        reader.join().unwrap();
        assert_eq!(events.try_iter().collect::<Vec<_>>(), ["destroyed", "read"]);
    }
}
