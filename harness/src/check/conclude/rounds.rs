//! A body that runs in rounds: only what every round leaves more of is a finding.

use std::time::Duration;

use super::sites::Sites;
use crate::check::measure::{Earlier, Measured};
use crate::check::names::{Live, Names};
use crate::judge::{Grown, Held, growth};
use crate::ledger::ScopeId;
use crate::report::model::TimelineRun;

/// What the rounds of one check showed.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// The first, with what the run's notes, limits and baseline are taken from.
    pub(crate) first: Measured,
    /// The last, where there were several.
    pub(crate) last: Option<Measured>,
    /// What has grown in every round.
    pub(crate) grown: Vec<Grown>,
    /// How what was held moved in each.
    pub(crate) timelines: Vec<TimelineRun>,
    /// The scope of each.
    pub(crate) scopes: Vec<ScopeId>,
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
    let first = measure(&mut earlier);
    earlier.since = Some(first.began);
    let mut rounds = Growing::new(first, &Live);
    while rounds.may_still_grow() && rounds.left.len() < limit as usize {
        rounds.add(measure(&mut earlier));
    }
    rounds.finish()
}

/// Rounds, as far as they were run.
#[derive(Debug)]
pub(crate) struct Growing<'names> {
    sites: Sites<'names>,
    /// What each left.
    left: Vec<Vec<Held>>,
    as_expected: bool,
    so_far: Rounds,
}

impl<'names> Growing<'names> {
    /// The first round.
    pub(crate) fn new(first: Measured, names: &'names dyn Names) -> Self {
        let mut sites = Sites::new(names);
        Self {
            left: vec![sites.merge(&first.held)],
            sites,
            as_expected: first.as_expected,
            so_far: Rounds {
                scopes: vec![first.scope],
                timelines: vec![first.timeline.clone()],
                body_time: first.body_time,
                first,
                last: None,
                grown: Vec::new(),
            },
        }
    }

    fn may_still_grow(&self) -> bool {
        self.as_expected && !growth(&self.left).is_empty()
    }

    /// One more round.
    pub(crate) fn add(&mut self, round: Measured) {
        self.as_expected = round.as_expected;
        let mut held = self.sites.merge(&round.held);
        if let Some(before) = self.left.last() {
            self.sites.align(before, &mut held);
        }
        self.left.push(held);
        self.so_far.scopes.push(round.scope);
        self.so_far.body_time += round.body_time;
        self.so_far.timelines.push(round.timeline.clone());
        self.so_far.last = Some(round);
    }

    /// What they all come to.
    pub(crate) fn finish(mut self) -> Rounds {
        // One that ended early says nothing of what would have grown.
        if self.as_expected && self.left.len() > 1 {
            self.so_far.grown = growth(&self.left);
        }
        self.so_far
    }
}
