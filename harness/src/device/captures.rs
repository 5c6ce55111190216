//! Stream captures in progress, as far as the intercepted calls show them.
//!
//! If the harness synchronised a context or trimmed a pool while one of its streams is being
//! captured, it would invalidate the capture and break the program under test. A capture spreads to
//! other streams and contexts through events, so the harness does neither while any capture is
//! active.

use crate::sync::{Mutex, locked};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The captures in progress. The first value is the stream on which the capture began, as the
/// program refers to it. The second is the graph to which `cuStreamBeginCaptureToGraph` adds nodes,
/// or 0.
static CAPTURES: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
/// The number of captures, so that asking whether there is one costs a single load.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn change<T>(change: impl FnOnce(&mut Vec<(u64, u64)>) -> T) -> T {
    let mut captures = locked(&CAPTURES);
    let answer = change(&mut captures);
    COUNT.store(captures.len(), Ordering::Release);
    answer
}

/// Records that a capture began on `stream`. `into` is the existing graph to which the capture adds
/// nodes, or 0.
pub(crate) fn began(stream: u64, into: u64) {
    change(|captures| captures.push((stream, into)));
}

/// Records the end of the newest capture that began on `stream`. Returns the existing graph to
/// which the capture added nodes, or 0.
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

    /// Returns the number of captures on the streams that only this test uses.
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
        // Two threads may each capture their own default stream, to which both refer by the same
        // handle.
        began(of_a_thread, 0);
        began(of_a_thread, 0);
        ended(of_a_thread);
        assert_eq!(count(), 1);
        ended(of_a_thread);
    }
}
