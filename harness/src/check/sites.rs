//! Stacks that are one place of the program.

use crate::judge::{Held, What};
use crate::ledger::{self, Kind, StackId};
use crate::report::model::{Frame, Owner, Site};
use crate::{observe, report};

/// The places of the program met so far, each with the stack that stands for it.
///
/// Stacks that differ only inside CUDA's libraries are one: a library takes many things for one
/// call, and a first call takes another way through it than later ones.
#[derive(Debug, Default)]
pub(crate) struct Sites(Vec<(Vec<Frame>, StackId)>);

impl Sites {
    /// Puts together what was taken at the same place.
    pub(crate) fn merge(&mut self, all: &[Held]) -> Vec<Held> {
        let mut merged: Vec<Held> = Vec::new();
        for held in all {
            let mut held = held.clone();
            held.key.stack = self.representative(&held);
            match merged.iter_mut().find(|known| known.key == held.key) {
                Some(known) => known.absorb(held),
                None => merged.push(held),
            }
        }
        merged
    }

    fn representative(&mut self, held: &Held) -> StackId {
        if matches!(held.key.what, What::Reserve(_)) {
            return held.key.stack;
        }
        let mut frames = site(held.key.stack, held).frames;
        frames.retain(|frame| frame.owner != Owner::Cuda);
        match self.0.iter().find(|(known, _)| *known == frames) {
            Some((_, stack)) => *stack,
            None => {
                self.0.push((frames, held.key.stack));
                held.key.stack
            }
        }
    }
}

/// The site of one of a finding's stacks.
pub(crate) fn site(stack: StackId, held: &Held) -> Site {
    let kind = match held.key.what {
        What::Live(kind)
        | What::EndedWithContext(kind, _)
        | What::FailedFree {
            kind: Some(kind), ..
        } => kind,
        What::FailedFree { kind: None, .. } => Kind::Linear,
        // A reserve has grown by many hands.
        What::Reserve(_) => return Site::default(),
    };
    let frames = ledger::live().stacks().frames(stack);
    report::site(frames, kind, &observe::own_sources())
}
