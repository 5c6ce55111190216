//! The engine of the `backtrace` crate: what panics use, for every platform.

use super::Frames;

/// Writes the calling thread's return addresses into `frames`, beginning with the innermost frame
/// whose stack pointer is at least `from`.
pub(super) fn walk(from: usize, frames: &mut Frames) {
    let visit = |frame: &backtrace::Frame| {
        // `ip` and `sp` only: a frame's other properties look symbols up.
        (frame.sp() as usize) < from || frames.push(frame.ip() as usize)
    };
    if cfg!(unix) {
        // SAFETY: the locked variant exists for engines with shared state, such as Windows'
        // dbghelp. On Unix the engine is `_Unwind_Backtrace`, which walks the calling thread's own
        // stack and takes the loader's lock by itself where it looks for unwind tables, so any
        // number of threads may be in it at once. The closure does not panic.
        unsafe { backtrace::trace_unsynchronized(visit) };
    } else {
        backtrace::trace(visit);
    }
    // The outermost frame of a thread can have no return address.
    while frames.as_slice().last() == Some(&0) {
        frames.count -= 1;
    }
}
