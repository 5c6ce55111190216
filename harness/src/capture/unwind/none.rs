//! For platforms where only the exact unwinder works.

use super::Frames;

/// Where a walk begins; not used.
pub(super) struct NoRegisters;

pub(super) use self::NoRegisters as Registers;

impl NoRegisters {
    pub(super) fn new() -> Self {
        Self
    }
}

/// Always returns `None`.
pub(super) fn walk(_here: &NoRegisters, _frames: &mut Frames) -> Option<usize> {
    None
}

/// Does nothing.
pub(super) fn differed() {}
