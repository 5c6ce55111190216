//! A token that threads inherit from the thread that starts them.
//!
//! Each thread has a token, which is a number. 0 means no token. If [`inherits`] is true, a new
//! thread begins with the token of the thread that started it, without any user code: see
//! `glibc/pthread.rs`. This covers
//! threads of the standard library, of rayon and of tokio, and those that a shared library starts,
//! if the linker exports the program's own definition to libraries. Linkers export symbols that a
//! library on their command line, here the C library, defines as well. A library that binds its
//! calls to itself, or calls `clone`, starts threads that inherit nothing.
//!
//! A thread that a GPU driver starts for itself while the program calls the driver also inherits
//! the token, because it may run the program's callbacks. But it is not counted as live under that
//! token: it often runs as long as the process, so no check waits for it.

use std::cell::Cell;

thread_local! {
    // This is constant and has no destructor, so it can be read from a thread's first instruction
    // up to the destructors of the thread's other thread-locals, and reading it never allocates.
    pub(crate) static TOKEN: Cell<u64> = const { Cell::new(0) };
}

/// Returns the token of this thread: the last one set on it or, if none was set, the one that it
/// inherited. 0 means no token.
#[must_use]
#[inline]
pub fn token() -> u64 {
    TOKEN.get()
}

/// Whether threads inherit the token in this build.
#[must_use]
pub const fn inherits() -> bool {
    cfg!(interpose)
}
