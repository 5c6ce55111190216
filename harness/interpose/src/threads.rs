//! A token that threads inherit from the thread that starts them.
//!
//! Each thread has a token, which is a number. The number 0 means that the thread has no token. If
//! [`inherits`] is true, a new thread begins with the token of the thread that started it, without
//! any help from user code: see `glibc/pthread.rs`. This covers threads started by the standard
//! library, rayon or tokio. It also covers threads that a shared library starts, if the linker
//! exports the program's own definition of `pthread_create`. Linkers export a symbol if a library
//! on their command line (here, the C library) also defines it. Threads that a library starts by
//! calling `clone`, or by calling a definition of its own, inherit nothing.
//!
//! A thread that a GPU driver starts for itself while the program calls the driver also inherits
//! the token, because it may run the program's callbacks. It is not counted as live under that
//! token, however, because it often lives as long as the process does, and checks must not wait for
//! it.

use std::cell::Cell;

thread_local! {
    // The initial value is a constant and the type has no destructor, so the variable can be used
    // at any time from the thread's first instruction to its last destructor, and using it never
    // allocates.
    pub(crate) static TOKEN: Cell<u64> = const { Cell::new(0) };
}

/// Returns the token of this thread: the last one set on it or, if none was set, the one that it
/// inherited. 0 means no token.
#[inline]
pub fn token() -> u64 {
    TOKEN.get()
}

/// Whether threads inherit the token in this build.
pub const fn inherits() -> bool {
    cfg!(interpose)
}
