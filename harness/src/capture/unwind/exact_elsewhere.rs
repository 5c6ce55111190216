//! The exact unwinder of platforms for which this crate has none: the `backtrace` crate's.

/// Calls `visit` with the stack pointer and the return address of each frame of the calling thread,
/// innermost first, until it returns false. `visit` must not panic.
pub(crate) fn trace(mut visit: impl FnMut(usize, usize) -> bool) {
    // Other properties of a frame look up symbols.
    let visit = |frame: &backtrace::Frame| visit(frame.sp() as usize, frame.ip() as usize);
    if cfg!(unix) {
        // SAFETY: the locked variant exists for unwinders with shared state, such as Windows'
        // dbghelp. On Unix the unwinder is `_Unwind_Backtrace`, which walks the calling thread's
        // own stack and takes the loader's lock itself to find unwind tables, so any number of
        // threads may call it at once. The closure does not panic.
        unsafe { backtrace::trace_unsynchronized(visit) };
    } else {
        backtrace::trace(visit);
    }
}
