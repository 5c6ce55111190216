//! Detects growth in every round of a body, or from each snapshot of a program to the next.
//!
//! Growth is judged by call site and also by layer, place and kind, because a different line can
//! add to a total in each round. One-time set-up and memory that a later round frees are not
//! growth.

use std::collections::BTreeMap;

use super::finding::{Found, location, of_group};
use super::group::{Class, Group};
use super::input::CheckInput;
use super::trend::{Trend, TrendSubject};
use super::usage::gains_always;
use crate::ledger::Amount;
use crate::report::FindingKind;

/// The smallest number of rounds that can show growth.
pub(crate) const FEWEST_ROUNDS: usize = gpu_leak_check_options::FEWEST_ROUNDS as usize;

/// Whether any group has grown in every round so far.
pub(crate) fn may_still_grow(groups: &[Group]) -> bool {
    groups.iter().any(|group| gains_always(&group.level))
        || rest_by_class(groups)
            .values()
            .any(|(_, levels)| gains_always(levels))
}

/// Returns a finding for everything that grew in every round.
pub(crate) fn findings(groups: &[Group], input: &CheckInput) -> Vec<Found> {
    if input.could_not_repeat() || input.judged_runs().len() < FEWEST_ROUNDS {
        return Vec::new();
    }
    let grown = groups.iter().filter(|group| gains_always(&group.level));
    let mut found: Vec<Found> = grown.map(|group| of_site(group, input)).collect();
    let by_class = rest_by_class(groups);
    let grown = by_class.values().filter(|(_, levels)| gains_always(levels));
    found.extend(grown.map(|(groups, levels)| of_class(groups, levels, input)));
    found
}

fn of_site(group: &Group, input: &CheckInput) -> Found {
    let last = group.level.last().copied().unwrap_or_default();
    let run = group.first_run().unwrap_or(0);
    let mut grown = of_group(FindingKind::Grew, group, &group.kept_in_all(), run, input);
    let finding = &mut grown.finding;
    let is_exact = |each: &u64| each.checked_mul(last.count) == Some(last.bytes);
    (finding.count, finding.bytes) = (last.count, last.bytes);
    finding.each = finding.each.filter(is_exact);
    // The calls of the finding come from several rounds, so they have no position in a single run.
    (finding.when, finding.allocated, finding.freed) = (None, finding.count, 0);
    finding.rounds = group.level.clone();
    grown.charged = vec![last.bytes];
    grown
}

/// Reports a sum that grows through call sites that do not grow individually, at the call site with
/// the largest share.
fn of_class(groups: &[&Group], levels: &[Amount], input: &CheckInput) -> Found {
    let largest = groups
        .iter()
        .max_by_key(|group| {
            let last = group.level.last().copied().unwrap_or_default();
            (last.bytes, last.count)
        })
        .expect("every class has at least one group");
    let mut grown = of_site(largest, input);
    let last = levels.last().copied().unwrap_or_default();
    let finding = &mut grown.finding;
    (finding.count, finding.bytes, finding.each) = (last.count, last.bytes, None);
    finding.allocated = last.count;
    finding.rounds = levels.to_vec();
    let others = groups.iter().filter(|group| group.key != largest.key);
    let others: Vec<String> = others
        .map(|group| location(&input.names, group))
        .take(NAMED)
        .collect();
    finding.notes.push(format!(
        "no single call site grew in every round, but all of them together did; \
         other call sites are {}",
        others.join(", ")
    ));
    grown.records = groups
        .iter()
        .flat_map(|group| group.kept_in_all().records)
        .collect();
    grown.records.sort_unstable();
    grown.charged = vec![last.bytes];
    grown
}

/// The largest number of other call sites that a note lists.
const NAMED: usize = 4;

/// Adds up the call sites that have not grown individually, by layer, place and kind.
fn rest_by_class(groups: &[Group]) -> BTreeMap<Class, (Vec<&Group>, Vec<Amount>)> {
    let mut classes: BTreeMap<Class, (Vec<&Group>, Vec<Amount>)> = BTreeMap::new();
    for group in groups.iter().filter(|group| !gains_always(&group.level)) {
        let (members, levels) = classes.entry(group.key.class).or_default();
        levels.resize(group.level.len(), Amount::default());
        for (sum, level) in levels.iter_mut().zip(&group.level) {
            *sum = sum.plus(*level);
        }
        members.push(group);
    }
    classes
}

/// Marks the call sites that grew in each of the last snapshots, and the allocators that grew as a
/// whole although none of their call sites did. All that such an allocator holds is one finding, at
/// the call site with the largest share.
pub(crate) fn mark(trend: &Trend, found: &mut Vec<Found>) {
    let (sites, allocators): (Vec<_>, Vec<_>) = trend
        .growing()
        .partition(|line| line.what.allocator.is_none());
    for line in sites.into_iter().chain(allocators) {
        let is_part =
            |found: &Found| TrendSubject::all_of(&found.finding).any(|what| what == line.what);
        let has_grown = |found: &Found| found.finding.kind == FindingKind::Grew;
        if found.iter().any(|found| is_part(found) && has_grown(found)) {
            continue;
        }
        let mut own: Vec<Found> = found.extract_if(.., |found| is_part(found)).collect();
        own.sort_by_key(|found| found.finding.bytes);
        let Some(mut largest) = own.pop() else {
            continue;
        };
        let finding = &mut largest.finding;
        finding.kind = FindingKind::Grew;
        finding.rounds = line.levels.clone();
        finding.when = None;
        for rest in &own {
            finding.count = finding.count.saturating_add(rest.finding.count);
            finding.bytes = finding.bytes.saturating_add(rest.finding.bytes);
            finding.each = finding.each.filter(|each| rest.finding.each == Some(*each));
            finding.allocated = finding.allocated.saturating_add(rest.finding.allocated);
            finding.freed = finding.freed.saturating_add(rest.finding.freed);
            largest.records.extend(&rest.records);
        }
        largest.charged = vec![finding.bytes];
        if let Some(name) = &line.what.allocator {
            finding.notes.push(format!(
                "this is everything that {name} holds; the largest part was allocated at the \
                 location shown"
            ));
        }
        found.push(largest);
    }
}
