//! A reading of a driver object and its destruction never overlap.
//!
//! The harness reads pools, contexts and streams that the program owns; the program may destroy
//! them at any moment, and the driver does not say what a call on a destroyed handle does. So a
//! destroy call waits, before it is made, for readings in progress, and a reading waits for destroy
//! calls in progress.
//!
//! It is the one wait of a wrapper for more than a table. A reading calls the driver and nothing
//! else, but such a call may last: [`quiesce`](super::quiesce) has every context do the work that it
//! was given, and whoever destroys a context or a pool meanwhile waits for that work. Work on a
//! device that itself waits for the thread that destroys (a host function in a stream) holds both
//! up.

use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a reading waits for destroy calls. One that lasts longer waits for something itself.
const PATIENCE: Duration = Duration::from_secs(10);

/// Contexts and the pools of devices.
pub(crate) static CONTEXTS_AND_POOLS: Exclusion = Exclusion::new();
/// Streams.
pub(crate) static STREAMS: Exclusion = Exclusion::new();

/// Readings on one side, destructions on the other; any number of one of them at a time.
#[derive(Debug)]
pub(crate) struct Exclusion {
    /// So many readings are in progress, or, below zero, so many destructions.
    in_progress: Mutex<i64>,
    changed: Condvar,
}

/// While it lives, nothing that its [`Exclusion`] guards is destroyed.
#[derive(Debug)]
pub(crate) struct Reading(&'static Exclusion);

/// While it lives, nothing that its [`Exclusion`] guards is read.
#[derive(Debug)]
pub(crate) struct Destruction(&'static Exclusion);

impl Drop for Destruction {
    fn drop(&mut self) {
        self.0.change(1);
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.change(-1);
    }
}

impl Exclusion {
    pub(crate) const fn new() -> Self {
        Self {
            in_progress: Mutex::new(0),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, i64> {
        let in_progress = self.in_progress.lock();
        in_progress.unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, by: i64) {
        *self.lock() += by;
        self.changed.notify_all();
    }

    /// Begins a reading; none when a destroy call does not come to its end.
    ///
    /// Look the handles up after this, never before: those of destroy calls that came first are
    /// then out of the ledger.
    pub(crate) fn read(&'static self) -> Option<Reading> {
        let destroying = |in_progress: &mut i64| *in_progress < 0;
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), PATIENCE, destroying);
        let (mut in_progress, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return None;
        }
        *in_progress += 1;
        Some(Reading(self))
    }

    /// Begins a destroy call. Waits for the readings in progress.
    pub(crate) fn destroy(&'static self) -> Destruction {
        let waited = self
            .changed
            .wait_while(self.lock(), |in_progress| *in_progress > 0);
        *waited.unwrap_or_else(PoisonError::into_inner) -= 1;
        Destruction(self)
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
        let (told, events) = mpsc::channel();
        let destroyer = std::thread::spawn({
            let told = told.clone();
            move || {
                let _destruction = EXCLUSION.destroy();
                told.send("destroyed").unwrap();
            }
        });
        drop(first);
        told.send("still reading").unwrap();
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
        let (told, events) = mpsc::channel();
        let reader = std::thread::spawn({
            let told = told.clone();
            move || {
                let _reading = EXCLUSION.read().unwrap();
                told.send("read").unwrap();
            }
        });
        told.send("destroyed").unwrap();
        drop(destruction);
        reader.join().unwrap();
        assert_eq!(events.try_iter().collect::<Vec<_>>(), ["destroyed", "read"]);
    }
}
