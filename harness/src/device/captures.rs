//! Stream captures in progress, as far as the intercepted calls show them.
//!
//! While a stream is being captured, synchronising its context or trimming a pool would invalidate
//! the capture and break the program under test. A capture spreads to other streams and contexts
//! through events, so the harness does neither while any capture is active.

use crate::ledger::event::ContextUid;
use crate::sync::{Mutex, locked};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A capture in progress.
struct Capture {
    /// The stream on which the capture began. If 0 means the thread's own stream,
    /// `CU_STREAM_PER_THREAD` is stored instead.
    stream: u64,
    /// The graph to which `cuStreamBeginCaptureToGraph` adds nodes, or 0.
    into: u64,
    /// The context of the stream. The capture ends with this context. The value is 0 for a stream
    /// of a green context, which belongs to no context.
    context: ContextUid,
}

static CAPTURES: Mutex<Vec<Capture>> = Mutex::new(Vec::new());
/// The number of captures, so that asking whether there is one costs a single load.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn change<T>(change: impl FnOnce(&mut Vec<Capture>) -> T) -> T {
    let mut captures = locked(&CAPTURES);
    let result = change(&mut captures);
    COUNT.store(captures.len(), Ordering::Release);
    result
}

/// Records that a capture began on `stream` of `context`. `into` is the existing graph to which the
/// capture adds nodes, or 0.
pub(crate) fn began(stream: u64, into: u64, context: ContextUid) {
    let capture = Capture {
        stream,
        into,
        context,
    };
    change(|captures| captures.push(capture));
}

/// Records the end of the newest capture that began on `stream`. Returns the existing graph to
/// which the capture added nodes, or 0 for a new graph; `None` if there is no such capture.
pub(crate) fn ended(stream: u64) -> Option<u64> {
    change(|captures| {
        let newest = captures.iter().rposition(|it| it.stream == stream)?;
        Some(captures.remove(newest).into)
    })
}

/// Records the end of all captures in a context that has ended. Returns their streams.
pub(crate) fn ended_with(context: ContextUid) -> Vec<u64> {
    if !active() {
        return Vec::new();
    }
    change(|captures| {
        let ended = captures.extract_if(.., |it| it.context == context);
        ended.map(|it| it.stream).collect()
    })
}

/// Returns the streams of the captures that began in `context`.
pub(crate) fn streams_of(context: ContextUid) -> Vec<u64> {
    let captures = locked(&CAPTURES);
    let of_context = captures.iter().filter(|it| it.context == context);
    of_context.map(|it| it.stream).collect()
}

/// Whether a capture is in progress.
pub(crate) fn active() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

#[cfg(test)]
mod tests {
    use super::{CAPTURES, began, ended, ended_with};
    use crate::ledger::event::ContextUid;

    const CONTEXT: ContextUid = ContextUid(u32::MAX);

    /// Returns the number of captures on the streams that only this test uses.
    fn count() -> usize {
        let captures = CAPTURES.lock().unwrap();
        let of_test = captures.iter().filter(|it| it.context == CONTEXT);
        of_test.count()
    }

    #[test]
    fn a_capture_ends_on_the_stream_where_it_began_or_with_its_context() {
        let [first, second, third, of_a_thread] =
            [1, 2, 3, 4].map(|number: u64| number + (1 << 60));
        began(first, 0, CONTEXT);
        began(second, 9, CONTEXT);
        assert_eq!(ended(third), None, "no capture began on that stream");
        assert_eq!(ended(second), Some(9));
        assert_eq!(count(), 1);
        assert_eq!(ended(first), Some(0));
        assert_eq!(count(), 0);
        // Two threads may each capture their own default stream, to which both refer by the same
        // handle.
        began(of_a_thread, 0, CONTEXT);
        began(of_a_thread, 0, CONTEXT);
        ended(of_a_thread);
        assert_eq!(count(), 1);
        assert_eq!(ended_with(CONTEXT), [of_a_thread]);
        assert_eq!(count(), 0);
    }
}
