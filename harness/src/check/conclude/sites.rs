//! Stacks that are one place of the program.

use crate::check::names::Names;
use crate::judge::{Held, What};
use crate::ledger::{Kind, StackId};
use crate::report::model::{Frame, Owner, Site};

/// The places of the program met so far, each with the stack that stands for it.
///
/// Stacks that differ only inside CUDA's libraries are one: a library takes many things for one
/// call, and a first call takes another way through it than later ones. So are those that differ
/// only in which call of one line they came through: a report would show no difference.
#[derive(Debug)]
pub(crate) struct Sites<'names> {
    names: &'names dyn Names,
    met: Met,
}

/// Places of the program, each with the stack that stands for it.
pub(crate) type Met = Vec<(Vec<Frame>, StackId)>;

impl<'names> Sites<'names> {
    /// None met yet.
    pub(crate) fn new(names: &'names dyn Names) -> Self {
        Self::after(names, Met::new())
    }

    /// Those that others have met, and more.
    pub(crate) fn after(names: &'names dyn Names, met: Met) -> Self {
        Self { names, met }
    }

    /// Those met so far, for others to go on with.
    pub(crate) fn into_met(self) -> Met {
        self.met
    }

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

    /// Has what was taken at the same line, but come to by another way, stand in `second` under its
    /// key in `first`, as far as `first` has more of that. Work that a pool of threads shares out is
    /// called from elsewhere each time, and no less a leak for it.
    pub(crate) fn align(&self, first: &[Held], second: &mut Vec<Held>) {
        for wanted in first {
            let there = find(second, wanted).map_or(0, |held| held.count);
            let mut missing = wanted.count.saturating_sub(there);
            for at in 0..second.len() {
                let held = &second[at];
                let (usual, usual_bytes) =
                    find(first, held).map_or((0, 0), |held| (held.count, held.bytes));
                let spare = held.count.saturating_sub(usual);
                let count = missing.min(spare);
                if count == 0 || held.key == wanted.key || !is_same_line(wanted, held, self.names) {
                    continue;
                }
                let spare_bytes = held.bytes.saturating_sub(usual_bytes);
                // Those of one size are exact; of others nobody knows which came which way.
                let bytes = match held.each {
                    Some(each) => each.saturating_mul(count),
                    None => spare_bytes / spare * count + spare_bytes % spare * count / spare,
                };
                missing -= count;
                move_to(second, at, wanted, count, bytes);
            }
        }
        second.retain(|held| held.count != 0);
    }

    fn representative(&mut self, held: &Held) -> StackId {
        if matches!(held.key.what, What::HandedOut | What::Reserve(_)) {
            return held.key.stack;
        }
        let Site {
            mut frames, user, ..
        } = site(held.key.stack, held, self.names);
        for (at, frame) in frames.iter_mut().enumerate() {
            if Some(at) != user {
                frame.column = None;
            }
        }
        frames.retain(|frame| frame.owner != Owner::Cuda);
        match self.met.iter().find(|(known, _)| *known == frames) {
            Some((_, stack)) => *stack,
            None => {
                self.met.push((frames, held.key.stack));
                held.key.stack
            }
        }
    }
}

/// What stands under the same key.
fn find<'a>(all: &'a [Held], held: &Held) -> Option<&'a Held> {
    all.iter().find(|other| other.key == held.key)
}

/// Has `count` of those at this place stand under the key of `wanted`.
fn move_to(all: &mut Vec<Held>, at: usize, wanted: &Held, count: u64, bytes: u64) {
    let from = &mut all[at];
    let moved = Held {
        key: wanted.key.clone(),
        count,
        bytes,
        taken: count,
        ..from.clone()
    };
    from.count -= count;
    from.bytes = from.bytes.saturating_sub(bytes);
    match all.iter_mut().find(|known| known.key == moved.key) {
        Some(known) => known.absorb(moved),
        None => all.push(moved),
    }
}

/// Whether the same kind of thing was taken at the same line of the user's.
pub(crate) fn is_same_line(one: &Held, other: &Held, names: &dyn Names) -> bool {
    let line = |held: &Held| {
        let site = site(held.key.stack, held, names);
        site.user.map(|user| site.frames[user].clone())
    };
    let (a, b) = (&one.key, &other.key);
    (a.layer, a.place, &a.what) == (b.layer, b.place, &b.what)
        && line(one).is_some_and(|frame| line(other) == Some(frame))
}

/// The site of one of a finding's stacks.
pub(crate) fn site(stack: StackId, held: &Held, names: &dyn Names) -> Site {
    let kind = match held.key.what {
        What::Live(kind)
        | What::EndedWithContext(kind, _)
        | What::FailedFree {
            kind: Some(kind), ..
        } => kind,
        What::FailedFree { kind: None, .. } => Kind::Linear,
        // A sum has grown by many hands.
        What::HandedOut | What::Reserve(_) => return Site::default(),
    };
    names.site(stack, kind)
}
