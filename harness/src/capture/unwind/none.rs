//! Stands in for the quick unwinder on platforms where only the exact unwinder works.

use super::Frames;
use crate::ledger::Stacks;
use crate::ledger::event::StackId;

/// Stands for the registers of the frame in which a walk begins, which are not used.
pub(super) struct NoRegisters;

pub(super) use self::NoRegisters as Registers;

impl NoRegisters {
    pub(super) fn new() -> Self {
        Self
    }
}

/// Stands for a walk. It has no values, because this unwinder walks no stacks.
pub(super) enum NoWalk {}

pub(super) use self::NoWalk as StackWalk;

impl NoWalk {
    pub(super) fn begin(_here: &NoRegisters, _stacks: &Stacks) -> Option<Self> {
        None
    }

    pub(super) fn predicted(&mut self) -> Option<StackId> {
        match *self {}
    }

    pub(super) fn frames(&mut self, _frames: &mut Frames) -> Option<usize> {
        match *self {}
    }

    pub(super) fn has_caller(&mut self, _frame: [usize; 3]) -> bool {
        match *self {}
    }

    pub(super) fn keep(&mut self, _backtrace: StackId) {
        match *self {}
    }
}

pub(super) fn differed(_same: &[usize]) {}
