//! Stream captures in progress, as their calls tell.
//!
//! Synchronising a context, or releasing a pool's memory, while one of its streams is being
//! captured would invalidate the capture: the harness would break the program it watches. A
//! capture spreads over streams and contexts by events, so while any is active none of that is
//! done.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Of each capture: the stream where it began, as the program names it, and the graph it adds to, of
/// `cuStreamBeginCaptureToGraph`; else 0.
static CAPTURES: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
/// How many there are, so that asking costs one load.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn change<T>(change: impl FnOnce(&mut Vec<(u64, u64)>) -> T) -> T {
    let mut captures = CAPTURES.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = change(&mut captures);
    COUNT.store(captures.len(), Ordering::Release);
    answer
}

/// A capture began on `stream`; `into` is the graph it adds to, 0 for one of its own.
pub(crate) fn began(stream: u64, into: u64) {
    change(|captures| captures.push((stream, into)));
}

/// The newest capture that began on `stream` is over. Answers with the graph it added to, 0 for one of
/// its own.
pub(crate) fn ended(stream: u64) -> u64 {
    change(|captures| {
        let newest = captures.iter().rposition(|capture| capture.0 == stream);
        newest.map_or(0, |newest| captures.remove(newest).1)
    })
}

/// Whether any capture is in progress.
pub(crate) fn active() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

#[cfg(test)]
mod tests {
    use super::{CAPTURES, began, ended};

    /// Of streams that no other test of this process has.
    fn count() -> usize {
        let captures = CAPTURES.lock().unwrap();
        captures
            .iter()
            .filter(|capture| capture.0 >= 1 << 60)
            .count()
    }

    #[test]
    fn a_capture_ends_on_the_stream_where_it_began() {
        let [first, second, third, of_a_thread] =
            [1, 2, 3, 4].map(|number: u64| number + (1 << 60));
        began(first, 0);
        began(second, 9);
        assert_eq!(ended(third), 0, "no capture began there");
        assert_eq!(ended(second), 9);
        assert_eq!(count(), 1);
        assert_eq!(ended(first), 0);
        assert_eq!(count(), 0);
        // Two threads may each capture their own default stream, by the same name.
        began(of_a_thread, 0);
        began(of_a_thread, 0);
        ended(of_a_thread);
        assert_eq!(count(), 1);
        ended(of_a_thread);
    }
}
