//! The Python lines at which a thread stands, read while it is inside a call of the CUDA driver.
//!
//! [`install`] puts a reader of CPython's frames beside the native unwinder of `gpu-leak-check`.
//! Whatever takes a stack from then on takes the lines of Python with it: `train.py:31 in step`.
//!
//! The reader runs where nothing of Python's may be called: PyTorch has let go of the interpreter's
//! lock before it allocates. So it reads the interpreter's own structures, of the calling thread
//! only, in the releases whose layout it knows: CPython 3.9 to 3.15. Others, and those
//! without the lock ("free-threaded"), are refused with a sentence that says so.

#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    target_endian = "little"
))]
mod reader;
#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    target_endian = "little"
)))]
#[path = "nowhere.rs"]
mod reader;

use std::fmt;

/// The release of an interpreter: `3.12.3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    major: u8,
    minor: u8,
    /// `3.12.3`, and what it adds of itself: `3.15.0b1`.
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
    /// Its release.
    pub version: Version,
    /// What is the matter with it: `has a layout that this release does not know`.
    why: &'static str,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, why } = self;
        write!(
            out,
            "Python {version} {why}: stacks name libraries and functions, but no lines of Python"
        )
    }
}

impl std::error::Error for Unsupported {}

/// Has every stack taken from now on tell the lines of this process's Python, and answers with its
/// release; none where no Python is loaded. To be called again once there may be one.
///
/// # Errors
///
/// When its frames have a form that is not known.
pub fn install() -> Result<Option<Version>, Unsupported> {
    reader::install()
}
