//! A token that threads inherit from the thread that starts them.
//!
//! The token is a number on each thread; 0 is none. With [`inherits`], a new thread begins with
//! the token of the thread that started it, with no code of the user's. Threads of the standard
//! library, of rayon and of tokio come that way, and those that a shared library starts, where the
//! linker shows libraries the program's own definition: it does so for what a library on its command
//! line, here the C library, defines as well. A library that binds its calls to itself, or calls
//! `clone`, starts threads that inherit nothing.

#[cfg(interpose)]
mod live;
#[cfg(interpose)]
mod pthread;

use std::cell::Cell;

thread_local! {
    // Constant and without a destructor: it can be read from a thread's first instruction to the
    // destructors of its other thread-locals, and reading it never allocates.
    static TOKEN: Cell<u64> = const { Cell::new(0) };
}

/// The token of this thread: the one set last on it, else the one its starter had. 0 is none.
#[must_use]
pub fn token() -> u64 {
    TOKEN.get()
}

/// Sets this thread's token and returns the one before.
pub fn set_token(token: u64) -> u64 {
    // Whoever sets a token wants it inherited.
    #[cfg(interpose)]
    pthread::link();
    TOKEN.replace(token)
}

/// Has `first` run once, on the thread that is about to start the program's next thread, before that
/// one begins. It must not panic. The last one given counts; without [`inherits`] nothing happens.
pub fn before_next_thread(first: fn()) {
    #[cfg(interpose)]
    pthread::before_next(first);
    #[cfg(not(interpose))]
    let _ = first;
}

/// Whether threads inherit the token in this build.
#[must_use]
pub const fn inherits() -> bool {
    cfg!(interpose)
}

/// How many live threads inherited this token, those included that are about to begin or are
/// running their destructors. 0 without [`inherits`].
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

/// The live threads that inherited any token but 0, by the kernel's numbers. One that has just begun may
/// be missing. Empty without [`inherits`].
#[must_use]
pub fn threads_with_token() -> Vec<i32> {
    #[cfg(interpose)]
    return live::threads();
    #[cfg(not(interpose))]
    Vec::new()
}

/// How many threads were ever started by threads whose token was 0, those included that are being
/// started. 0 without [`inherits`].
#[must_use]
pub fn started_without_token() -> u64 {
    #[cfg(interpose)]
    return live::without_token();
    #[cfg(not(interpose))]
    0
}

/// Whether a thread whose token is 0 is starting another one: whether that one exists yet is not known.
/// Never without [`inherits`].
#[must_use]
pub fn is_starting_without_token() -> bool {
    #[cfg(interpose)]
    return live::is_starting_without_token();
    #[cfg(not(interpose))]
    false
}
