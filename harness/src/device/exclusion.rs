//! Ensures that readings of a driver object and its destruction never overlap.
//!
//! The harness reads pools, contexts and streams that the program owns. The program may destroy
//! them at any time, and the driver does not define what a call with a destroyed handle does. So a
//! destroy call first waits for readings in progress, and a reading waits for destroy calls in
//! progress.
//!
//! This is the only point at which a wrapper may wait for longer than a table access takes. A
//! reading only calls the driver, but such a call may take a long time:
//! [`synchronise`](super::synchronise) waits for all work of a context, and a thread that destroys
//! a context at the same time then also waits for that work. The work may in turn wait for that
//! thread, for example in a host function of a stream. So a destroy call waits only for a limited
//! time and is then made even if the reading is still in progress. No other reading begins before
//! the destroy call has ended.

use crate::sync::{Condvar, Mutex, PoisonError, locked};
use std::time::Duration;

/// How long readings and destroy calls wait for each other. A call that takes longer must itself be
/// waiting for something.
const PATIENCE: Duration = Duration::from_secs(10);

/// Guards contexts.
pub(crate) static CONTEXT_EXCLUSION: Exclusion = Exclusion::new();
/// Guards pools that the program has created. Reading them never waits for work of a device.
pub(crate) static POOL_EXCLUSION: Exclusion = Exclusion::new();
/// Guards streams.
pub(crate) static STREAM_EXCLUSION: Exclusion = Exclusion::new();

/// Keeps readings and destructions apart. At any time, any number of readings or any number of
/// destructions may be in progress. Both are in progress at once only if a destruction has waited
/// for too long.
pub(crate) struct Exclusion {
    in_progress: Mutex<InProgress>,
    changed: Condvar,
    patience: Duration,
}

struct InProgress {
    /// The numbers of readings and of destructions.
    counts: [usize; 2],
    /// How many threads wait for the other kind to end. They are counted because even a
    /// notification that wakes no thread costs a system call.
    waiting: usize,
}

/// A guard of an [`Exclusion`]. Dropping it ends one reading or destruction, as `KIND` says.
pub(crate) struct Guard<const KIND: usize>(&'static Exclusion);

const READING: usize = 0;
const DESTRUCTION: usize = 1;

/// A guard: while it exists, nothing that its [`Exclusion`] protects is destroyed, unless the
/// destroy call has waited for too long.
pub(crate) type Reading = Guard<READING>;

/// A guard: while it exists, no reading of what its [`Exclusion`] protects begins.
pub(crate) type Destruction = Guard<DESTRUCTION>;

impl<const KIND: usize> Drop for Guard<KIND> {
    fn drop(&mut self) {
        let mut in_progress = locked(&self.0.in_progress);
        in_progress.counts[KIND] -= 1;
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
                counts: [0; 2],
                waiting: 0,
            }),
            changed: Condvar::new(),
            patience: PATIENCE,
        }
    }

    /// Begins a reading; `None` if a destroy call does not end in time. Look up handles only after
    /// this call, because handles whose destruction began earlier are then no longer in the ledger.
    pub(crate) fn read(&'static self) -> Option<Reading> {
        self.begin()
    }

    /// Begins a destroy call, after waiting for a limited time for the readings in progress. The
    /// result is never `None`.
    pub(crate) fn destroy(&'static self) -> Option<Destruction> {
        self.begin()
    }

    fn begin<const KIND: usize>(&'static self) -> Option<Guard<KIND>> {
        let others = |it: &InProgress| it.counts[1 - KIND] != 0;
        let mut in_progress = locked(&self.in_progress);
        // The clock is read only if there is something to wait for.
        if others(&in_progress) {
            in_progress.waiting += 1;
            let (changed, patience) = (&self.changed, self.patience);
            let waited = changed.wait_timeout_while(in_progress, patience, |it| others(it));
            in_progress = waited.unwrap_or_else(PoisonError::into_inner).0;
            in_progress.waiting -= 1;
            if KIND == READING && others(&in_progress) {
                return None;
            }
        }
        in_progress.counts[KIND] += 1;
        Some(Guard(self))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::Exclusion;

    /// The thread that destroys something may have to go on before the reading can end.
    #[test]
    fn a_destruction_begins_even_if_a_reading_does_not_end() {
        let exclusion: &'static Exclusion = Box::leak(Box::new(Exclusion {
            patience: Duration::from_millis(1),
            ..Exclusion::new()
        }));
        let reading = exclusion.read().unwrap();
        let destruction = exclusion.destroy().unwrap();
        assert!(exclusion.read().is_none(), "no other reading begins");
        drop(reading);
        assert!(
            exclusion.read().is_none(),
            "no other reading begins when the first one ends"
        );
        drop(destruction);
        assert!(exclusion.read().is_some());
    }

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
