//! Adds the current lines of interpreted programs to backtraces.

use std::sync::OnceLock;

use super::Frames;

/// Writes the lines that the calling thread is executing, innermost first, as
/// [words](crate::ledger::script::LineNumber::word). Writes as many as fit, and returns their
/// number.
///
/// This function is called in a wrapper for a driver function, on the calling thread. It must not
/// call the interpreter or the driver. It may take a lock or allocate memory only when it sees a
/// line for the first time.
pub type Reader = fn(&mut [usize]) -> usize;

/// The largest number of lines in a backtrace. If there are more, the outermost callers are cut
/// off.
const DEPTH: usize = 64;

static READER: OnceLock<Reader> = OnceLock::new();

/// Installs `reader`. Returns false if a reader is already installed.
pub fn install(reader: Reader) -> bool {
    READER.set(reader).is_ok()
}

#[inline]
pub(super) fn reader() -> Option<Reader> {
    READER.get().copied()
}

/// A backtrace that consists of return addresses, followed by the lines of the interpreted program.
pub(super) struct Joined {
    words: [usize; super::DEPTH + DEPTH],
    addresses: usize,
    count: usize,
}

impl Joined {
    /// Joins `frames` and the lines that this thread is executing.
    pub(super) fn new(frames: &Frames, reader: Reader) -> Self {
        let mut words = [0; super::DEPTH + DEPTH];
        let addresses = frames.as_slice().len();
        words[..addresses].copy_from_slice(frames.as_slice());
        let lines = reader(&mut words[addresses..][..DEPTH]).min(DEPTH);
        Self {
            words,
            addresses,
            count: addresses + lines,
        }
    }

    /// Joins other return addresses to the same lines.
    pub(super) fn behind(&self, frames: &Frames) -> Self {
        let mut words = [0; super::DEPTH + DEPTH];
        let addresses = frames.as_slice().len();
        let lines = &self.words[self.addresses..self.count];
        words[..addresses].copy_from_slice(frames.as_slice());
        words[addresses..][..lines.len()].copy_from_slice(lines);
        Self {
            words,
            addresses,
            count: addresses + lines.len(),
        }
    }

    pub(super) fn as_slice(&self) -> &[usize] {
        &self.words[..self.count]
    }
}
