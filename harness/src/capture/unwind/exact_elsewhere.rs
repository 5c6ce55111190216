//! The exact engine where there is no port of ours: the `backtrace` crate's, for every platform.

/// Calls `visit` with the stack pointer and the return address of each frame of the calling thread,
/// innermost first, as long as it says so. It must not panic.
pub(crate) fn trace(mut visit: impl FnMut(usize, usize) -> bool) {
    // Nothing else of a frame: its other properties look symbols up.
    let visit = |frame: &backtrace::Frame| visit(frame.sp() as usize, frame.ip() as usize);
    if cfg!(unix) {
        // SAFETY: the locked variant exists for engines with shared state, such as Windows'
        // dbghelp. On Unix the engine is `_Unwind_Backtrace`, which walks the calling thread's own
        // stack and takes the loader's lock by itself where it looks for unwind tables, so any
        // number of threads may be in it at once. The closure does not panic.
        unsafe { backtrace::trace_unsynchronized(visit) };
    } else {
        backtrace::trace(visit);
    }
}
