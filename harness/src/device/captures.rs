//! Stream captures in progress, as seen from their calls.
//!
//! Synchronising a context or trimming a pool while one of its streams is being captured would
//! invalidate the capture: the harness would break the program under test. A capture spreads over
//! streams and contexts through events, so none of this is done while any capture is active.

use crate::sync::{Mutex, locked};
use std::sync::atomic::{AtomicUsize, Ordering};

/// For each capture, the stream on which it began, as the program names it, and the graph that
/// `cuStreamBeginCaptureToGraph` adds to, or 0.
static CAPTURES: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
/// The number of captures, so that a query costs one load.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn change<T>(change: impl FnOnce(&mut Vec<(u64, u64)>) -> T) -> T {
    let mut captures = locked(&CAPTURES);
    let answer = change(&mut captures);
    COUNT.store(captures.len(), Ordering::Release);
    answer
}

/// Records that a capture began on `stream`; `into` is the existing graph that it adds to, or 0.
pub(crate) fn began(stream: u64, into: u64) {
    change(|captures| captures.push((stream, into)));
}

/// Records the end of the newest capture that began on `stream`. Returns the existing graph that it
/// added to, or 0.
pub(crate) fn ended(stream: u64) -> u64 {
    change(|captures| {
        let newest = captures.iter().rposition(|capture| capture.0 == stream);
        newest.map_or(0, |newest| captures.remove(newest).1)
    })
}

/// Whether a capture is in progress.
pub(crate) fn active() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

#[cfg(test)]
mod tests {
    use super::{CAPTURES, began, ended};

    /// Uses streams that no other test of this process has.
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
        // Two threads may each capture their own default stream, under the same name.
        began(of_a_thread, 0);
        began(of_a_thread, 0);
        ended(of_a_thread);
        assert_eq!(count(), 1);
        ended(of_a_thread);
    }
}
