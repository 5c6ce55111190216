//! Reads the Python lines that a thread is executing while it is inside a call to the CUDA driver.
//!
//! [`install`] adds a reader of CPython's frames to the native unwinder of `gpu-leak-check`. From
//! then on, every backtrace contains Python lines such as `train.py:31 in step`.
//!
//! The reader must not call Python's functions, since the calling thread may have released the
//! interpreter's lock, as PyTorch does before it allocates. Instead, the reader accesses the
//! interpreter's structures directly. It reads only those of the calling thread, and only in the
//! releases whose layout it knows: CPython 3.9 to 3.15. Other releases and builds without the lock
//! ("free-threaded") are rejected with a message.

#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    target_endian = "little"
))]
mod reader;
mod shutdown;
mod symbols;
#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    target_endian = "little"
)))]
mod reader {
    use crate::{Unsupported, Version};

    /// No interpreter can be read on this system.
    pub(crate) fn install() -> Result<Option<Version>, Unsupported> {
        Ok(None)
    }
}

use std::fmt;

/// The release of an interpreter, for example `3.12.3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    major: u8,
    minor: u8,
    /// The full version: `3.12.3`, or `3.15.0b1` for a pre-release.
    full: String,
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.full)
    }
}

/// An interpreter that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The release of the interpreter.
    pub version: Version,
    /// Why the interpreter is not supported, for example `is built without the GIL`.
    why: &'static str,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, why } = self;
        write!(
            out,
            "Python {version} {why}: stacks show libraries and functions, but no Python lines"
        )
    }
}

impl std::error::Error for Unsupported {}

/// Calls `then` once, when this process's Python begins to shut down: after the exit handlers
/// (`atexit`) that the program registers from now on, when only memory reachable from variables is
/// left, and before that memory is freed. It is not called if the process ends without shutting
/// Python down.
///
/// The main thread registers the handler the next time it executes Python.
pub fn before_shutdown(then: fn()) {
    shutdown::before(then);
}

/// Adds the Python lines of this process to all later backtraces, and returns the release of
/// Python, or `None` if no Python is loaded. It can be called again once Python may have been
/// loaded.
///
/// # Errors
///
/// Returns an error if the frame layout of this release is not known.
pub fn install() -> Result<Option<Version>, Unsupported> {
    reader::install()
}
