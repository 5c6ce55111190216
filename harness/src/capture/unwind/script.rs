//! The port to interpreters: the lines at which the calling thread's interpreted program stands.

use std::sync::OnceLock;

use super::Frames;

/// Writes the lines at which the calling thread stands, innermost first, as
/// [words](crate::ledger::script::LineNumber::word), as many as fit, and answers with how many
/// there are.
///
/// Called in a callback of the driver, on the thread that made the call: it must not call into the
/// interpreter or the driver, and may lock or allocate only where it meets a line for the first
/// time.
pub type Reader = fn(&mut [usize]) -> usize;

/// How many lines a stack keeps; callers further out are cut off.
const DEPTH: usize = 64;

static READER: OnceLock<Reader> = OnceLock::new();

/// Reads interpreted programs by `reader` from now on; false where another already does.
pub fn install(reader: Reader) -> bool {
    READER.set(reader).is_ok()
}

/// The one installed.
#[inline]
pub(super) fn reader() -> Option<Reader> {
    READER.get().copied()
}

/// A stack with the lines of the interpreted program behind its return addresses.
pub(super) struct Joined {
    words: [usize; super::DEPTH + DEPTH],
    addresses: usize,
    count: usize,
}

impl Joined {
    /// `frames` with the lines at which this thread stands.
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

    /// The same lines behind other return addresses.
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
