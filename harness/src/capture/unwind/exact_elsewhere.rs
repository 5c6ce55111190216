//! The exact unwinder for platforms on which this crate has none of its own. It is the unwinder of
//! the `backtrace` crate.

/// Calls `visit` with the stack pointer and the return address of each frame of the calling thread,
/// innermost first, until it returns false. The third argument stands for the frame pointer, which
/// is not known. `visit` must not panic.
pub(crate) fn trace(mut visit: impl FnMut(usize, usize, usize) -> bool) {
    // Reading other properties of a frame would look up symbols.
    let visit = |frame: &backtrace::Frame| visit(frame.sp() as usize, frame.ip() as usize, 0);
    if cfg!(unix) {
        // SAFETY: the locked variant exists for unwinders with shared state, such as dbghelp on
        // Windows. On Unix, the unwinder is `_Unwind_Backtrace`. It walks the stack of the calling
        // thread and takes the loader's lock itself to find unwind tables, so any number of threads
        // may call it at the same time. The closure does not panic.
        unsafe { backtrace::trace_unsynchronized(visit) };
    } else {
        backtrace::trace(visit);
    }
}
