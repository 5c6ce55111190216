//! Adds the current lines of interpreted programs to backtraces.

use std::sync::OnceLock;

use super::Frames;

/// Writes the lines that the calling thread is executing, innermost first, as
/// [words](crate::ledger::script::LineNumber::word). Writes as many as fit, and returns their
/// number.
///
/// It is called in a wrapper of a driver function, on the calling thread. It must not call the
/// interpreter or the driver, and may lock or allocate only when it sees a line for the first time.
pub type Reader = fn(&mut [usize]) -> usize;

/// The most lines in a backtrace; outer callers are cut off.
const DEPTH: usize = 64;

static READER: OnceLock<Reader> = OnceLock::new();

/// Installs `reader`. Returns false if a reader is already installed.
pub fn install(reader: Reader) -> bool {
    READER.set(reader).is_ok()
}

/// Returns the installed reader.
#[inline]
pub(super) fn reader() -> Option<Reader> {
    READER.get().copied()
}

/// A backtrace with the lines of the interpreted program after its return addresses.
pub(super) struct Joined {
    words: [usize; super::DEPTH + DEPTH],
    addresses: usize,
    count: usize,
}

impl Joined {
    /// Appends the lines that this thread is executing to `frames`.
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

    /// Appends the same lines to other return addresses.
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
