//! One run of a body between two readings.

pub(crate) mod body;
mod measured;
mod remarks;
pub(crate) mod sources;
pub(crate) mod stretch;
pub(crate) mod timeline;
pub(crate) mod uncovered;

use std::time::Instant;

use self::body::End;
pub(crate) use self::measured::{Measured, Unknown};
use self::stretch::Stretch;
use super::poison;
use super::scopes::members;
use super::scopes::open::Open;
use super::turn::company::Company;
use crate::case::ShouldPanic;
use crate::config::Policy;
use crate::ledger::ScopeId;

/// The runs of the same check before another one.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// Their scopes: what their threads go on to do is the next run's. The last one's too, once it
    /// is over.
    pub(crate) scopes: Vec<ScopeId>,
    /// Since when what they left counts as left by the next run too; none: each run by itself.
    pub(crate) since: Option<u64>,
}

impl Drop for Earlier {
    fn drop(&mut self) {
        if let Some(last) = self.scopes.last() {
            members::forget(*last);
        }
    }
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
        members::join(*scope, stretch.scope());
    }
    let start = Instant::now();
    let end = run(stretch.scope());
    let body_time = start.elapsed();
    let ended = stretch.end_body();
    let left = stretch.settle(policy, company);
    let as_expected = end.as_expected(should_panic);
    let measured = Measured {
        end,
        body_time,
        ..stretch.finish(as_expected, ended, left)
    };
    if measured.poisoned_inside.is_some() {
        poison::blame(name, company.met_a_check());
    }
    measured
}

/// Runs a body in a scope of its own, for the test called `name`, and judges nothing.
pub(crate) fn run_unmeasured(
    name: &str,
    company: Company<'_>,
    run: impl FnOnce(ScopeId) -> End,
) -> (ScopeId, End) {
    let is_well = |scope| sources::synchronise(scope).is_empty();
    let was_well = is_well(ScopeId::NONE);
    let open = Open::new();
    let end = run(open.scope());
    if was_well && !is_well(open.scope()) {
        poison::blame(name, company.met_a_check());
    }
    (open.scope(), end)
}
