//! Stream captures in progress, told by the callbacks.
//!
//! Synchronising a context, or releasing a pool's memory, while one of its streams is being
//! captured would invalidate the capture: the harness would break the program it watches. A
//! capture spreads over streams and contexts by events, so while any is active none of that is
//! done.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One capture.
#[derive(Clone, Copy, Debug)]
struct Capture {
    /// The stream where it began, as the program names it.
    stream: u64,
    /// The graph it adds to, of `cuStreamBeginCaptureToGraph`; else 0.
    into: u64,
}

static CAPTURES: Captures = Captures::new();

/// The captures in progress.
#[derive(Debug)]
struct Captures {
    list: Mutex<Vec<Capture>>,
    /// The list's length, so that asking costs one load.
    count: AtomicUsize,
}

impl Captures {
    const fn new() -> Self {
        Self {
            list: Mutex::new(Vec::new()),
            count: AtomicUsize::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Capture>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn began(&self, capture: Capture) {
        let mut list = self.lock();
        list.push(capture);
        self.count.store(list.len(), Ordering::Release);
    }

    fn ended(&self, stream: u64) -> Option<Capture> {
        let mut list = self.lock();
        let newest = list.iter().rposition(|capture| capture.stream == stream)?;
        let capture = list.remove(newest);
        self.count.store(list.len(), Ordering::Release);
        Some(capture)
    }
}

/// A capture began on `stream`; `into` is the graph it adds to, 0 for one of its own.
pub(crate) fn began(stream: u64, into: u64) {
    CAPTURES.began(Capture { stream, into });
}

/// The capture that began on `stream` is over. Answers with the graph it added to, 0 for one of
/// its own.
pub(crate) fn ended(stream: u64) -> u64 {
    CAPTURES.ended(stream).map_or(0, |capture| capture.into)
}

/// Whether any capture is in progress.
pub(crate) fn active() -> bool {
    CAPTURES.count.load(Ordering::Acquire) > 0
}

#[cfg(test)]
mod tests {
    use super::{Capture, Captures};
    use std::sync::atomic::Ordering;

    #[test]
    fn a_capture_ends_on_the_stream_where_it_began() {
        let captures = Captures::new();
        captures.began(Capture { stream: 1, into: 0 });
        captures.began(Capture { stream: 2, into: 9 });
        assert!(captures.ended(3).is_none(), "no capture began there");
        assert_eq!(captures.ended(2).unwrap().into, 9);
        assert_eq!(captures.count.load(Ordering::Relaxed), 1);
        assert_eq!(captures.ended(1).unwrap().into, 0);
        assert_eq!(captures.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn two_threads_may_each_capture_their_own_default_stream() {
        // Both name it 2, `CU_STREAM_PER_THREAD`.
        let captures = Captures::new();
        captures.began(Capture { stream: 2, into: 0 });
        captures.began(Capture { stream: 2, into: 0 });
        captures.ended(2);
        assert_eq!(captures.count.load(Ordering::Relaxed), 1);
    }
}
