//! One run of a body between two readings.

use std::time::{Duration, Instant};

use super::body::End;
use super::company::Company;
use super::family;
use super::open::Open;
use super::sources::Poisoned;
use super::stretch::Stretch;
use crate::case::ShouldPanic;
use crate::config::Policy;
use crate::judge::{Held, Over, Reading, Refused};
use crate::ledger::{ScopeId, steps};
use crate::report::allocators::Allocator;
use crate::report::model::{TimelineRun, When};

/// What one run of a body showed.
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
    pub(super) ended: u64,
    /// How many allocating and freeing calls there were while the body ran.
    pub(super) events: u64,
    /// Limits that the run passed.
    pub(crate) over: Vec<Over>,
    /// Things to know, a sentence each.
    pub(crate) notes: Vec<String>,
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

/// The runs of the same check before another one.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// Their scopes: what their threads go on to do is the next run's.
    pub(crate) scopes: Vec<ScopeId>,
    /// Since when what they left counts as left by the next run too; none: each run by itself.
    pub(crate) since: Option<u64>,
}

/// Runs a body once, by `run` for the scope it is told, and looks at what it left. The runs before
/// it were `earlier`.
pub(crate) fn measure(
    name: &str,
    policy: &Policy,
    should_panic: Option<ShouldPanic>,
    company: Company<'_>,
    earlier: &Earlier,
    run: impl FnOnce(ScopeId) -> End,
) -> Measured {
    let mut stretch = Stretch::begin(name, company, policy.budget);
    if let Some(moment) = earlier.since {
        stretch.count_since(moment);
    }
    for scope in &earlier.scopes {
        family::join(*scope, stretch.scope());
    }
    let start = Instant::now();
    let end = run(stretch.scope());
    let body_time = start.elapsed();
    let ended = stretch.end_body();
    let left = stretch.settle(policy, company);
    let as_expected = end.as_expected(should_panic);
    Measured {
        end,
        body_time,
        ..stretch.finish(as_expected, ended, left)
    }
}

/// Runs a body in a scope of its own and judges nothing.
pub(crate) fn run_unmeasured(run: impl FnOnce(ScopeId) -> End) -> (ScopeId, End) {
    let open = Open::new();
    let end = run(open.scope());
    (open.scope(), end)
}
