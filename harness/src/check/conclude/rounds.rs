//! A body that runs in rounds: only what every round leaves more of is a finding.

use std::time::Duration;

use super::is_kept_by_broken;
use super::sites::Sites;
use crate::check::measure::{Earlier, Measured};
use crate::check::names::{Live, Names};
use crate::judge::{self, Grown, Held, growth};
use crate::ledger::ScopeId;
use crate::report::model::TimelineRun;

/// What the rounds of one check showed.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// The first, from which the notes and the baseline are taken, with what happened in any.
    pub(crate) first: Measured,
    /// What went wrong in any round, rather than stayed.
    pub(crate) incidents: Vec<Held>,
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
/// more, a context is broken, or a round did not end as it should, no further one is run.
pub(crate) fn run(
    limit: u32,
    mut earlier: Earlier,
    mut measure: impl FnMut(&mut Earlier) -> Measured,
) -> Rounds {
    let mut so_far: Option<Growing<'_>> = None;
    loop {
        // One call for all of them, so that they have the same stacks.
        let round = measure(&mut earlier);
        earlier.since.get_or_insert(round.began);
        let rounds = match so_far.take() {
            None => Growing::new(round, &Live),
            Some(rounds) => rounds.with(round),
        };
        if !rounds.may_still_grow() || rounds.left.len() >= limit as usize {
            return rounds.finish();
        }
        so_far = Some(rounds);
    }
}

/// Rounds, as far as they were run.
#[derive(Debug)]
pub(crate) struct Growing<'names> {
    sites: Sites<'names>,
    /// What each left.
    left: Vec<Vec<Held>>,
    /// What went wrong in each, one after the other.
    incidents: Vec<Held>,
    as_expected: bool,
    so_far: Rounds,
}

impl<'names> Growing<'names> {
    /// The first round.
    pub(crate) fn new(first: Measured, names: &'names dyn Names) -> Self {
        let mut sites = Sites::new(names);
        let held = sites.merge(&first.held);
        Self {
            incidents: incidents(&held),
            left: vec![held],
            sites,
            as_expected: first.as_expected,
            so_far: Rounds {
                scopes: vec![first.scope],
                timelines: vec![first.timeline.clone()],
                body_time: first.body_time,
                first,
                incidents: Vec::new(),
                last: None,
                grown: Vec::new(),
            },
        }
    }

    fn may_still_grow(&self) -> bool {
        let Measured {
            poisoned_before,
            poisoned_inside,
            ..
        } = &self.so_far.first;
        // In a broken context the body could only fail.
        let broken = poisoned_before.is_some() || poisoned_inside.is_some();
        self.as_expected && !broken && !growth(&self.left).is_empty()
    }

    /// And one more round.
    pub(crate) fn with(mut self, round: Measured) -> Self {
        self.as_expected = round.as_expected;
        let mut held = self.sites.merge(&round.held);
        if let Some(before) = self.left.last() {
            self.sites.align(before, &mut held);
        }
        self.incidents.extend(incidents(&held));
        self.left.push(held);
        let first = &mut self.so_far.first;
        first.add_what_happened(&round);
        let kept = round
            .held
            .iter()
            .filter(|held| is_kept_by_broken(held, &round));
        first.held.extend(kept.cloned());
        self.so_far.scopes.push(round.scope);
        self.so_far.body_time += round.body_time;
        self.so_far.timelines.push(round.timeline.clone());
        self.so_far.last = Some(round);
        self
    }

    /// What they all come to.
    pub(crate) fn finish(mut self) -> Rounds {
        // One that ended early says nothing of what would have grown.
        if self.as_expected && self.left.len() > 1 {
            self.so_far.grown = growth(&self.left);
        }
        self.so_far.incidents = self.sites.merge(&self.incidents);
        self.so_far
    }
}

/// What of `held` went wrong.
fn incidents(held: &[Held]) -> Vec<Held> {
    let incidents = held.iter().filter(|held| judge::is_an_incident(held));
    incidents.cloned().collect()
}
