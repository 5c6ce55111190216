//! A body that runs in rounds: only what every round leaves more of is a finding.

use std::time::Duration;

use super::measure::{Earlier, Measured};
use super::sites::Sites;
use crate::judge::{Grown, Held, growth};

/// What the rounds of one check showed.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// The first, with what the run's notes, limits and baseline are taken from.
    pub(crate) first: Measured,
    /// The last, where there were several.
    pub(crate) last: Option<Measured>,
    /// What has grown in every round.
    pub(crate) grown: Vec<Grown>,
    /// How long the bodies ran.
    pub(crate) body_time: Duration,
}

/// Has `measure` run the body up to `limit` times. Once nothing can have grown in every round any
/// more, or a round did not end as it should, no further one is run.
pub(crate) fn run(
    limit: u32,
    mut earlier: Earlier,
    mut measure: impl FnMut(&mut Earlier) -> Measured,
) -> Rounds {
    let mut sites = Sites::default();
    let first = measure(&mut earlier);
    earlier.since = Some(first.began);
    let mut left: Vec<Vec<Held>> = vec![sites.merge(&first.held)];
    let mut as_expected = first.as_expected;
    let mut rounds = Rounds {
        body_time: first.body_time,
        first,
        last: None,
        grown: Vec::new(),
    };
    while as_expected && left.len() < limit as usize && !growth(&left).is_empty() {
        let round = measure(&mut earlier);
        as_expected = round.as_expected;
        let mut held = sites.merge(&round.held);
        if let Some(before) = left.last() {
            Sites::align(before, &mut held);
        }
        left.push(held);
        rounds.body_time += round.body_time;
        rounds.last = Some(round);
    }
    // One that ended early says nothing of what would have grown.
    if as_expected && left.len() > 1 {
        rounds.grown = growth(&left);
    }
    rounds
}
