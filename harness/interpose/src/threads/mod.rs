//! A token that threads inherit from the thread that starts them.
//!
//! Each thread has a token, which is a number; 0 is none. With [`inherits`], a new thread begins
//! with the token of the thread that started it, without any user code. This covers threads of the
//! standard library, of rayon and of tokio, and those that a shared library starts, if the linker
//! exports the program's own definition to libraries. It does so for symbols that a library on its
//! command line, here the C library, defines as well. A library that binds its calls to itself, or
//! calls `clone`, starts threads that inherit nothing.
//!
//! A thread that a GPU driver starts for itself, while the program calls it, inherits as well, because it
//! may run the program's callbacks. But it is not counted as live under that token: it often runs as long
//! as the process, and nobody waits for it.

#[cfg(interpose)]
mod live;
#[cfg(interpose)]
mod pthread;

use std::cell::Cell;

/// Stands in the counts for threads of drivers; it is no thread's token.
#[cfg(interpose)]
const OF_A_DRIVER: u64 = u64::MAX;

thread_local! {
    // Constant and without a destructor: it can be read from a thread's first instruction until the
    // destructors of its other thread-locals, and reading it never allocates.
    static TOKEN: Cell<u64> = const { Cell::new(0) };
}

/// Returns the token of this thread: the last one set on it, or else the one that it inherited. 0
/// is none.
#[must_use]
#[inline]
pub fn token() -> u64 {
    TOKEN.get()
}

/// Sets this thread's token and returns the previous one.
pub fn set_token(token: u64) -> u64 {
    // A token that is set is meant to be inherited.
    #[cfg(interpose)]
    pthread::link();
    TOKEN.replace(token)
}

/// Runs `first` once, on the thread that is about to start the program's next thread, before that
/// thread begins. It must not panic. Only the last function takes effect; without [`inherits`] none
/// does.
pub fn before_next_thread(first: fn()) {
    #[cfg(interpose)]
    pthread::before_next(first);
    #[cfg(not(interpose))]
    let _ = first;
}

/// A live thread that inherited a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkedThread {
    /// The kernel's id of it.
    pub id: i32,
    /// The mark of the moment when it was started; 0 for none.
    pub started: u64,
    /// The mark of the moment when it was detached, so that nobody can join it; 0 if it was not.
    pub detached: u64,
}

/// Calls `mark` from now on when a thread that inherits a token is started or detached, on the thread that
/// does so. It must not panic or start a thread. Only the last function takes effect; without [`inherits`] none does.
pub fn mark_threads(mark: fn() -> u64) {
    #[cfg(interpose)]
    pthread::mark_by(mark);
    #[cfg(not(interpose))]
    let _ = mark;
}

/// Whether threads inherit the token in this build.
#[must_use]
pub const fn inherits() -> bool {
    cfg!(interpose)
}

/// Returns how many live threads inherited this token, including those that are about to begin or
/// are running their destructors. 0 without [`inherits`].
#[must_use]
pub fn live(token: u64) -> usize {
    #[cfg(interpose)]
    return live::count(token);
    #[cfg(not(interpose))]
    {
        let _ = token;
        0
    }
}

/// Returns the kernel's ids of the live threads that inherited any token but 0, and of those of
/// drivers. One that has just begun may be missing. Empty without [`inherits`].
#[must_use]
pub fn threads_with_token() -> Vec<i32> {
    #[cfg(interpose)]
    return live::threads();
    #[cfg(not(interpose))]
    Vec::new()
}

/// Returns the threads of [`threads_with_token`] with their [marks](mark_threads).
#[must_use]
pub fn marked_threads() -> Vec<MarkedThread> {
    #[cfg(interpose)]
    return live::marked();
    #[cfg(not(interpose))]
    Vec::new()
}

/// Returns how many threads were ever started by threads with token 0, including those that are
/// being started. 0 without [`inherits`].
#[must_use]
pub fn started_without_token() -> u64 {
    #[cfg(interpose)]
    return live::without_token();
    #[cfg(not(interpose))]
    0
}

/// Whether a thread is being started, with a token or without: it may be missing from
/// [`threads_with_token`] or from the kernel's list. Always false without [`inherits`].
#[must_use]
pub fn is_starting() -> bool {
    #[cfg(interpose)]
    return live::is_starting();
    #[cfg(not(interpose))]
    false
}
