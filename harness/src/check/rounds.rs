//! A body that runs in rounds: only what every round leaves more of is a finding.

use std::time::Duration;

use super::measure::{Measured, measure_round};
use super::sites::Sites;
use crate::case::Case;
use crate::config::Policy;
use crate::judge::{Grown, Held, growth};
use crate::ledger::ScopeId;

/// What the rounds of one check showed.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// The first, with what the run's notes, limits and baseline are taken from.
    pub(crate) first: Measured,
    /// The last.
    pub(crate) last: Option<Measured>,
    /// What has grown in every round.
    pub(crate) grown: Vec<Grown>,
    /// How many were run.
    pub(crate) run: u32,
    /// How long the bodies ran.
    pub(crate) body_time: Duration,
}

/// Runs the body up to `policy.rounds` times. Once nothing can have grown in every round any more,
/// or a round did not end as it should, no further one is run.
pub(crate) fn run(case: &Case, policy: &Policy) -> Rounds {
    let mut scopes: Vec<ScopeId> = Vec::new();
    let mut sites = Sites::default();
    let mut left: Vec<Vec<Held>> = Vec::new();
    let mut rounds = Rounds {
        first: measure_round(case, policy, &mut scopes),
        last: None,
        grown: Vec::new(),
        run: 1,
        body_time: Duration::ZERO,
    };
    rounds.body_time = rounds.first.body_time;
    left.push(sites.merge(&rounds.first.held));
    let mut as_expected = rounds.first.as_expected;
    while as_expected && rounds.run < policy.rounds && !growth(&left).is_empty() {
        let round = measure_round(case, policy, &mut scopes);
        as_expected = round.as_expected;
        let mut held = sites.merge(&round.held);
        if let Some(before) = left.last() {
            Sites::align(before, &mut held);
        }
        left.push(held);
        rounds.body_time += round.body_time;
        rounds.last = Some(round);
        rounds.run += 1;
    }
    // One that ended early says nothing of what would have grown.
    if as_expected && rounds.run > 1 {
        rounds.grown = growth(&left);
    }
    rounds
}
