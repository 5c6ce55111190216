//! What one run of a body showed.

use std::time::Duration;

use super::body::End;
use super::sources::Poisoned;
use crate::judge::{self, Held, Over, Reading, Refused};
use crate::ledger::{ScopeId, steps};
use crate::report::allocators::Allocator;
use crate::report::model::{PrimaryKept, TimelineRun, When};

/// One run of a body between two readings.
#[derive(Debug)]
pub(crate) struct Measured {
    /// The scope it had.
    pub(crate) scope: ScopeId,
    /// When it began, in the order of the ledger's events.
    pub(crate) began: u64,
    /// How the body ended.
    pub(crate) end: End,
    /// Whether that is how it should end.
    pub(crate) as_expected: bool,
    /// How long it ran.
    pub(crate) body_time: Duration,
    /// Before it.
    pub(crate) before: Reading,
    /// After it, everything given back that can be.
    pub(crate) after: Reading,
    /// What is left.
    pub(crate) held: Vec<Held>,
    /// What is left and may be.
    pub(crate) tolerated: Vec<Held>,
    /// What is left and may be, by the word of the code that made it.
    pub(crate) allowed: Vec<Held>,
    /// Allocators that hold what was left and have no probe.
    pub(crate) uncovered: Vec<&'static Allocator>,
    /// Creating calls that failed.
    pub(crate) refused: Vec<Refused>,
    /// The ledger's moment at which the body had ended.
    pub(crate) ended: u64,
    /// How many allocating and freeing calls there were while the body ran.
    pub(crate) events: u64,
    /// Limits that the run passed.
    pub(crate) over: Vec<Over>,
    /// Things to know, a sentence each.
    pub(crate) notes: Vec<String>,
    /// Primary contexts that the body retained more often than it released them.
    pub(crate) primaries: Vec<PrimaryKept>,
    /// What nobody can be charged with.
    pub(crate) owner_unknown: Unknown,
    /// A context that failed before the body began.
    pub(crate) poisoned_before: Option<Poisoned>,
    /// A context that failed during it.
    pub(crate) poisoned_inside: Option<Poisoned>,
    /// Whether any source reported anything.
    pub(crate) saw_events: bool,
    /// How what was held moved.
    pub(crate) timeline: TimelineRun,
}

impl Measured {
    /// What happened in a further run, beside what it left, counts as of this one too: limits it
    /// passed, calls that were refused, a context it broke, and allocators nobody can see into.
    pub(crate) fn add_what_happened(&mut self, further: &Self) {
        judge::add_over(&mut self.over, &further.over);
        judge::add_refused(&mut self.refused, further.refused.iter().cloned());
        for allocator in &further.uncovered {
            if !self.uncovered.contains(allocator) {
                self.uncovered.push(allocator);
            }
        }
        let broken = further.poisoned_inside.or(further.poisoned_before);
        self.poisoned_inside = self.poisoned_inside.or(broken);
        self.saw_events |= further.saw_events;
    }

    /// Which of the allocating and freeing calls came at these moments. None where several threads
    /// made some at once: nobody knows their order.
    pub(crate) fn when(&self, first: u64, last: u64) -> Option<When> {
        let is_ordered = steps(self.began, self.ended) == self.events;
        let ordinal = |moment| steps(self.began, moment) + 1;
        is_ordered.then(|| When {
            first: ordinal(first),
            last: ordinal(last),
            of: self.events,
        })
    }
}

/// Records whose owner is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}
