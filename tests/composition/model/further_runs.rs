//! What only the further runs of nested checks leave. It does not count against the sessions around
//! them, because without the check, the body would run only once.

use std::collections::{BTreeMap, BTreeSet};

use super::super::allocators::{Allocator, Sum};
use super::super::trace::{Block, Owner, Session, Tick, Trace};
use super::View;

/// The position of a block in the trace.
type Number = usize;

impl View<'_> {
    /// Returns the blocks that only further runs of the checks inside the viewed session left.
    pub(super) fn left_again(&self) -> BTreeSet<Number> {
        let mut again = BTreeSet::new();
        for session in (self.number + 1..self.trace.sessions.len()).rev() {
            if self
                .inside()
                .any(|it| std::ptr::eq(it, &self.trace.sessions[session]))
            {
                let of_session = left_again(self.trace, session, &again);
                again.extend(of_session);
            }
        }
        again
    }

    /// Returns when the further runs of the checks inside this run took place.
    fn further_runs(&self, run: usize) -> impl Iterator<Item = (Tick, Tick)> {
        let further = self
            .inside()
            .filter_map(|inner| further_runs(self.trace, inner));
        further.filter(move |(began, _)| self.is_in(run, *began))
    }

    /// Whether a further run of a check inside this run was under way.
    pub(super) fn is_in_further_run(&self, run: usize, at: Tick) -> bool {
        let mut further = self.further_runs(run);
        further.any(|(began, ended)| began < at && at < ended)
    }

    /// Returns how much of the rise of a sum in a run is due to further runs of checks inside it
    /// for which `is_counted` returns `true`.
    pub(super) fn raised_again(
        &self,
        sum: Sum,
        run: usize,
        is_counted: impl Fn(Tick) -> bool,
    ) -> u64 {
        if self.trace.has_neighbour {
            return 0;
        }
        let of_check = |(began, ended): (Tick, Tick)| {
            let sum_changes = self.trace.sum_changes.iter().filter(|it| it.sum == sum);
            let sum_changes = sum_changes.filter(|it| began < it.at && it.at < ended);
            u64::try_from(sum_changes.map(|it| it.bytes).sum::<i64>()).unwrap_or(0)
        };
        let further = self
            .further_runs(run)
            .filter(|(began, _)| is_counted(*began));
        further.map(of_check).sum()
    }

    /// Returns how much further runs of checks inside a run added to the pool's reserve.
    pub(super) fn reserved_again(&self, run: usize) -> u64 {
        let of_check = |(began, ended): (Tick, Tick)| {
            let segments = self.trace.segments.iter();
            let new = segments.filter(move |it| began < it.at && it.at < ended);
            new.map(|segment| segment.bytes).sum::<u64>()
        };
        self.further_runs(run).map(of_check).sum()
    }
}

/// Returns when the first run of a check ended and when its last run ended, if the body ran again
/// to confirm something.
fn further_runs(trace: &Trace, session: &Session) -> Option<(Tick, Tick)> {
    let [first, .., last] = session.runs[..] else {
        return None;
    };
    let end = |run: usize| trace.runs[run].ended.expect("the program is over");
    (session.settings.rounds <= 1).then(|| (end(first), end(last)))
}

/// Returns the blocks that only further runs of the session with this number left, except those
/// that replace a block of the same allocator and place that the first run left and a later one
/// freed.
fn left_again(trace: &Trace, session: usize, inside: &BTreeSet<Number>) -> Vec<Number> {
    let Some((first, last)) = further_runs(trace, &trace.sessions[session]) else {
        return Vec::new();
    };
    let began = trace.runs[trace.sessions[session].runs[0]].began;
    let is_own = |block: &Block| {
        let is_owner = match block.owner {
            Owner::Run(run) => trace.run_of(session, run).is_some(),
            Owner::Nobody => !trace.has_neighbour,
            Owner::Neighbour => false,
        };
        is_owner && (began..last).contains(&block.made) && block.ambiguous.is_none()
    };
    let is_handed_over = |block: &Block, by: Tick| block.handed_over.is_some_and(|at| at < by);
    let is_freed = |block: &Block, by: Tick| block.freed.is_some_and(|at| at < by);
    let own = trace.blocks.iter().enumerate();
    let own: Vec<(Number, &Block)> = own
        .filter(|(number, block)| is_own(block) && !inside.contains(number))
        .collect();
    let is_replaced = |block: &Block| {
        let was_left = block.made < first && !is_freed(block, first);
        was_left && !is_handed_over(block, first) && is_freed(block, last)
    };
    let mut replaced: Vec<&Block> = own.iter().map(|(_, block)| *block).collect();
    replaced.retain(|block| is_replaced(block));
    let mut again: Vec<(Number, &Block)> = own;
    again.retain(|(_, block)| {
        block.made > first && !is_freed(block, last) && !is_handed_over(block, last)
    });
    type Key = ((Allocator, u8), Option<(u8, Option<u64>)>);
    let class = |it: &Block| (it.allocator, it.place);
    let keys: [&dyn Fn(&Block) -> Key; 3] = [
        &|it| (class(it), Some((it.site, Some(it.bytes)))),
        &|it| (class(it), Some((it.site, None))),
        &|it| (class(it), None),
    ];
    for key in keys {
        let mut of_key: BTreeMap<Key, Vec<Number>> = BTreeMap::new();
        for (number, block) in &again {
            of_key.entry(key(block)).or_default().push(*number);
        }
        replaced.retain(|block| {
            let newest = of_key.get_mut(&key(block)).and_then(Vec::pop);
            again.retain(|(number, _)| Some(*number) != newest);
            newest.is_none()
        });
    }
    again.into_iter().map(|(number, _)| number).collect()
}
