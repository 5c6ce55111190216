//! For platforms where threads inherit no scope and their start is not observed: nothing runs before the
//! program's first thread.

/// A function that is never run.
#[derive(Debug)]
pub(crate) struct BeforeFirstThread(
    #[expect(dead_code, reason = "nothing calls it")] pub(crate) fn(),
);

inventory::collect!(BeforeFirstThread);

/// Always returns `None`.
pub(crate) fn first_thread() -> Option<u64> {
    None
}
