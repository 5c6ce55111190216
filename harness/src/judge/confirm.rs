//! Only what repeats is a leak: what one run leaves may be set up once and kept.
//!
//! A finding is confirmed by the same call site in two runs, the last one included. What only the
//! second run leaves triggers a third, the last there is: then the same layer, place and kind in all
//! three runs confirms as well, whatever the call sites, and so does what is more after each of them.
//! What is kept and not confirmed is `first-use`. What one run left and a later one freed is
//! `deferred`. Neither fails a test by default.

use std::collections::BTreeMap;

use super::diff::{Class, Group};
use super::finding::{Found, confirmation, location, of_group, repeats};
use super::input::CheckInput;
use super::usage::Amount;
use crate::report::model::FindingKind;
use crate::units::{count, exact_size, quantity};

/// The most runs that a check without `rounds` makes of its body.
pub(crate) const MOST_RUNS: usize = 3;

/// Whether the second of two runs left something that neither run explains: a third one must tell.
pub(crate) fn is_undecided(groups: &[Group]) -> bool {
    groups.iter().any(|group| {
        let [first, second] = &group.kept[..] else {
            return false;
        };
        let only_second = first.amount.is_zero() && !second.amount.is_zero();
        // One that takes the place of another, no larger, is kept until it is replaced itself.
        only_second && second.amount.exceeds(group.freed_later(0))
    })
}

/// The findings of one run, or of the two or three that were made.
pub(crate) fn findings(groups: &[Group], input: &CheckInput) -> Vec<Found> {
    let runs = input.judged_runs().len();
    if runs == 1 {
        let of_only_run =
            |group: &Group| of_group(FindingKind::Leaked, group, &group.kept[0], 0, input);
        let kept = groups
            .iter()
            .filter(|group| !group.kept[0].amount.is_zero());
        return kept.map(of_only_run).collect();
    }
    let classes = classes(groups, runs);
    let mut found = Vec::new();
    for group in groups {
        let kept_in: Vec<bool> = group.kept.iter().map(|it| !it.amount.is_zero()).collect();
        if repeats(&kept_in) {
            found.extend(confirmed(group, &kept_in, input));
        } else if let Some(others) = classes.get(&group.key.class).filter(|it| it.in_all_runs) {
            found.extend(by_class(group, others, &kept_in, input));
        } else {
            found.extend(unconfirmed(group, &kept_in, input));
        }
    }
    found
}

/// What each run is known to lose, and beside it what was set up once.
fn confirmed(group: &Group, kept_in: &[bool], input: &CheckInput) -> Vec<Found> {
    let first = kept_in.iter().position(|it| *it).unwrap_or(0);
    let last = kept_in.len() - 1;
    let (earlier, later) = (&group.kept[first], &group.kept[last]);
    let loses_less =
        later.amount.count < earlier.amount.count && later.amount.bytes <= earlier.amount.bytes;
    let (each_run, run) = if loses_less {
        (later, last)
    } else {
        (earlier, first)
    };
    let mut leaked = of_group(FindingKind::Leaked, group, each_run, run, input);
    leaked.finding.confirmed = confirmation(kept_in, later.amount);
    let further = group.kept.iter().skip(first + 1);
    let largest = further.map(|it| it.amount.bytes).max();
    leaked.most_bytes = leaked.finding.bytes.max(largest.unwrap_or(0));
    leaked.records = group.kept_in_all().records;
    let mut found = vec![leaked];
    if loses_less {
        let once = group.part(first, earlier.amount.minus(later.amount));
        found.push(of_group(FindingKind::FirstUse, group, &once, first, input));
    }
    found
}

/// What the groups of one layer, place and kind that are not confirmed by themselves have together.
#[derive(Debug, Default)]
struct ClassHistory<'a> {
    groups: Vec<&'a Group>,
    /// Whether each of three runs left some, or more was live after each of them.
    in_all_runs: bool,
}

fn classes(groups: &[Group], runs: usize) -> BTreeMap<Class, ClassHistory<'_>> {
    let mut classes: BTreeMap<Class, ClassHistory<'_>> = BTreeMap::new();
    for group in groups {
        let kept_in: Vec<bool> = group.kept.iter().map(|it| !it.amount.is_zero()).collect();
        if !repeats(&kept_in) {
            classes
                .entry(group.key.class)
                .or_default()
                .groups
                .push(group);
        }
    }
    for class in classes.values_mut() {
        let sum = |of: fn(&Group, usize) -> Amount, run| {
            let amounts = class.groups.iter().map(|group| of(group, run));
            amounts.fold(Amount::default(), Amount::plus)
        };
        let kept_in_each =
            (0..runs).all(|run| !sum(|group, run| group.kept[run].amount, run).is_zero());
        let mut before = Amount::default();
        let rises_in_each = (0..runs).all(|run| {
            let level = sum(|group, run| group.level[run], run);
            level.exceeds(std::mem::replace(&mut before, level))
        });
        class.in_all_runs = runs == MOST_RUNS && (kept_in_each || rises_in_each);
    }
    classes
}

/// A group of a layer, place and kind that every run left some of, each at other call sites. What
/// the first run left is reported; what later runs left elsewhere is its confirmation.
fn by_class(
    group: &Group,
    class: &ClassHistory<'_>,
    kept_in: &[bool],
    input: &CheckInput,
) -> Vec<Found> {
    let last = kept_in.len() - 1;
    let earliest = class
        .groups
        .iter()
        .filter_map(|group| group.kept.iter().position(|it| !it.amount.is_zero()))
        .min();
    let Some(run) = earliest.filter(|run| kept_in[*run]) else {
        // Told of with those of the first run.
        let is_told = !group.kept_in_all().amount.is_zero();
        return if is_told {
            Vec::new()
        } else {
            unconfirmed(group, kept_in, input)
        };
    };
    let mut leaked = of_group(FindingKind::Leaked, group, &group.kept[run], run, input);
    let in_last: Vec<&&Group> = (class.groups.iter())
        .filter(|other| !other.kept[last].amount.is_zero())
        .collect();
    let amounts = in_last.iter().map(|other| other.kept[last].amount);
    let sum = amounts.fold(Amount::default(), Amount::plus);
    leaked.finding.confirmed = confirmation(&vec![true; kept_in.len()], sum);
    leaked.most_bytes = leaked.finding.bytes.max(sum.bytes);
    let elsewhere = in_last.iter().filter(|other| other.key != group.key);
    if let Some(other) = elsewhere.max_by_key(|other| other.kept[last].amount.bytes) {
        leaked.finding.notes.push(format!(
            "each run left some at another call site: the last one {}, {}, mostly at {}",
            quantity(sum.count, "object"),
            exact_size(sum.bytes),
            location(&input.names, other)
        ));
    }
    leaked
        .records
        .extend(in_last.iter().flat_map(|other| &other.kept[last].records));
    vec![leaked]
}

/// What does not repeat.
fn unconfirmed(group: &Group, kept_in: &[bool], input: &CheckInput) -> Vec<Found> {
    let last = kept_in.len() - 1;
    let deferred = (0..last).find(|run| !group.freed_later(*run).is_zero());
    let mut found = Vec::new();
    if let Some(run) = deferred {
        let tally = group.part(run, group.freed_later(run));
        let mut deferred = of_group(FindingKind::Deferred, group, &tally, run, input);
        let replaced = group.kept[last].amount;
        if !replaced.is_zero() {
            deferred.finding.notes.push(format!(
                "the last run left {} in its place",
                count(replaced.count)
            ));
        }
        found.push(deferred);
    }
    let kept = group.kept_in_all();
    let only_replaces = deferred.is_some() && kept_in.iter().rposition(|it| *it) == Some(last);
    if !kept.amount.is_zero() && !only_replaces {
        let run = kept_in.iter().position(|it| *it).unwrap_or(0);
        let mut once = of_group(FindingKind::FirstUse, group, &kept, run, input);
        if run != 0 {
            once.finding.notes.push(format!(
                "left by run {} of {} alone: a test that does not do the same each time is not \
                 confirmed by further runs",
                run + 1,
                kept_in.len()
            ));
        }
        found.push(once);
    }
    found
}
