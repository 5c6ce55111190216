//! Confirms findings. Only leaks that repeat are reported as leaks, because a single run may leave
//! one-time set-up.
//!
//! A finding is confirmed if the same call site leaks in two runs, including the last. A resource
//! that only the second run leaves triggers a third and last run. After three runs, a finding is
//! also confirmed if each run left something of the same layer, place and kind, regardless of the
//! call sites, or if more was live after each run than after the one before. A resource that is
//! kept but not confirmed is `first-use`. A resource that one run left and a later one freed is
//! `deferred`. Neither fails a test by default.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::finding::{Found, confirmation, location, of_group, repeats};
use super::group::{Class, Group, Tally};
use super::input::CheckInput;
use super::usage::gains_always;
use crate::ledger::{Amount, StackId};
use crate::report::{Confirmation, FindingKind};
use crate::units::{count, total};

/// The maximum number of times that a check without `rounds` runs its body.
pub(crate) const MAX_RUNS: usize = 3;

/// Whether the second of two runs left something that is neither confirmed nor only a replacement,
/// so that a third run must decide.
pub(crate) fn is_undecided(groups: &[Group]) -> bool {
    let has_two_runs = groups.iter().all(|group| group.left.len() == 2);
    has_two_runs
        && histories(groups).values().any(|history| {
            let new = history.groups.iter();
            let new = new.map(|group| beyond_confirmed(group, 1));
            // An allocation that replaces another one from the same line, and is no larger than it,
            // will be kept only until it is replaced in turn.
            let replaced = replaced(&history.groups);
            new.sum::<Amount>().exceeds(replaced)
        })
}

/// Returns the findings of the one, two or three runs that were made.
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
    let histories = histories(groups);
    let mut found = Vec::new();
    for group in groups {
        let history = &histories[&group.key.class];
        if history.repeats_the_first() {
            found.extend(of_first_run(group, history, input));
        } else if is_confirmed(group) {
            found.extend(confirmed(group, history, input));
        } else if history.is_in_all_runs() && !group.kept_in_all().amount.is_zero() {
            found.extend(by_class(group, history, input));
        } else if !history.explains(&kept_in(group)) || has_deferred(group) {
            found.extend(unconfirmed(group, history, input));
        }
    }
    found
}

/// Returns the resources that an interpreter held until it shut down, because a global variable, or
/// something reachable from one, still referred to them.
pub(crate) fn until_shutdown(groups: &[Group], input: &CheckInput) -> Vec<Found> {
    let held = groups.iter().map(|group| {
        let mut held = of_group(FindingKind::Deferred, group, &group.left[0], 0, input);
        held.finding.confirmed = Some(Confirmation::UntilShutdown);
        held
    });
    held.collect()
}

/// Returns, for each run, whether the run left something that is kept.
fn kept_in(group: &Group) -> Vec<bool> {
    group.kept.iter().map(|it| !it.amount.is_zero()).collect()
}

/// Returns the first run that left something that is kept.
fn first_kept(group: &Group) -> Option<usize> {
    group.kept.iter().position(|it| !it.amount.is_zero())
}

/// Whether two runs, including the last, left something that is kept.
fn is_confirmed(group: &Group) -> bool {
    repeats(&kept_in(group))
}

fn has_deferred(group: &Group) -> bool {
    (0..group.left.len()).any(|run| !group.freed_later(run).is_zero())
}

/// Returns the amount that a confirmed group loses in each run: the smaller of the amounts that the
/// first run with a loss and the last run left. Also returns the index of that run.
fn each_run(group: &Group) -> (&Tally, usize) {
    let (first, last) = (first_kept(group).unwrap_or(0), group.kept.len() - 1);
    match loses_less(group, first) {
        true => (&group.kept[last], last),
        false => (&group.kept[first], first),
    }
}

/// Whether the last run lost less at this call site than the first run that lost something.
fn loses_less(group: &Group, first: usize) -> bool {
    let (earlier, later) = (
        group.kept[first].amount,
        group.kept[group.kept.len() - 1].amount,
    );
    later.count < earlier.count && later.bytes <= earlier.bytes
}

/// The sums over the groups of one layer, place and kind.
#[derive(Debug, Default)]
struct ClassHistory<'a> {
    groups: Vec<&'a Group>,
    /// The amount that each run left.
    left: Vec<Amount>,
    /// The amount that each run left beyond the amount confirmed by call site.
    residual: Vec<Amount>,

    /// Whether more was live after each run than after the one before.
    rises: bool,
}

impl ClassHistory<'_> {
    /// Whether each of three runs left something of this class beyond the amount confirmed by call
    /// site, or more was live after each run than after the one before.
    fn is_in_all_runs(&self) -> bool {
        let left_in_each = self.residual.iter().all(|it| !it.is_zero());
        self.residual.len() == MAX_RUNS && (left_in_each || self.rises)
    }

    /// Whether each of three runs left at least as much as the first, including something beyond
    /// the amount confirmed by call site. The call sites may differ between runs, because the same
    /// allocation can be reached through several call paths, for example from a task on a thread
    /// pool.
    fn repeats_the_first(&self) -> bool {
        let Some((first, later)) = self.left.split_first() else {
            return false;
        };
        let is_as_much = |run: &Amount| run.count >= first.count && run.bytes >= first.bytes;
        self.residual.len() == MAX_RUNS
            && self.residual.iter().all(|it| !it.is_zero())
            && later.iter().all(is_as_much)
    }

    /// Whether the leaks of these runs are already confirmed at another call site. This happens if
    /// different runs reach the same allocation through different call paths.
    fn explains(&self, kept_in: &[bool]) -> bool {
        let mut of_runs = kept_in.iter().zip(&self.residual);
        kept_in.contains(&true) && of_runs.all(|(kept, residual)| !kept || residual.is_zero())
    }
}

fn histories(groups: &[Group]) -> BTreeMap<Class, ClassHistory<'_>> {
    let mut histories: BTreeMap<Class, ClassHistory<'_>> = BTreeMap::new();
    for group in groups {
        let history = histories.entry(group.key.class).or_default();
        history.groups.push(group);
    }
    for history in histories.values_mut() {
        let runs = history.groups.first().map_or(0, |group| group.left.len());
        let confirmed = history.groups.iter().filter(|it| is_confirmed(it));
        let steady = confirmed.map(|group| each_run(group).0.amount).sum();
        let sum = |of: &dyn Fn(&Group) -> Amount| history.groups.iter().map(|it| of(it)).sum();
        history.left = (0..runs)
            .map(|run| sum(&|group| group.kept[run].amount))
            .collect();
        let residual = history.left.iter().map(|left| left.minus(steady));
        history.residual = residual.collect();

        let unconfirmed = |group: &Group, run: usize| match is_confirmed(group) {
            true => Amount::default(),
            false => group.level[run],
        };
        let levels: Vec<Amount> = (0..runs)
            .map(|run| sum(&|group| unconfirmed(group, run)))
            .collect();
        history.rises = gains_always(&levels);
    }
    histories
}

/// Returns the amount that a run left and that is kept, beyond the amount that each run is
/// confirmed to lose at this call site.
fn beyond_confirmed(group: &Group, run: usize) -> Amount {
    let kept = group.kept[run].amount;
    match is_confirmed(group) {
        true => kept.minus(each_run(group).0.amount),
        false => kept,
    }
}

/// Returns the amount that the second run left at lines where it freed what the first run had left,
/// beyond the amount that the second run is confirmed to lose there.
fn replaced(groups: &[&Group]) -> Amount {
    type SourceLine<'a> = (Option<&'a (Arc<str>, u32)>, Option<StackId>);
    let mut by_line: BTreeMap<SourceLine<'_>, [Amount; 2]> = BTreeMap::new();
    for group in groups {
        // Without a line, each call site counts separately.
        let stack = group.line.is_none().then_some(group.key.stack);
        let [freed, left] = by_line.entry((group.line.as_ref(), stack)).or_default();
        *freed = freed.plus(group.freed_later(0));
        *left = left.plus(beyond_confirmed(group, 1));
    }
    let least = |[freed, left]: &[Amount; 2]| Amount {
        count: freed.count.min(left.count),
        bytes: freed.bytes.min(left.bytes),
    };
    by_line.values().map(least).sum()
}

/// Reports the leaks of the first run if every later run left at least as much, regardless of the
/// call sites.
fn of_first_run(group: &Group, class: &ClassHistory<'_>, input: &CheckInput) -> Option<Found> {
    let first = &group.kept[0];
    if first.amount.is_zero() {
        // A group that left nothing in the first run is not reported itself. Its leaks confirm the
        // leaks of that run.
        return None;
    }
    let last = group.kept.len() - 1;
    let mut leaked = of_group(FindingKind::Leaked, group, first, 0, input);
    let (own, all) = (group.kept[last].amount, class.left[last]);
    let shown = if own.is_zero() { all } else { own };
    leaked.finding.confirmed = confirmation(&vec![true; last + 1], shown);
    // If a later run left more than the first run, the excess is charged to only one group.
    let of_first = |other: &&&Group| !other.kept[0].amount.is_zero();
    if class.groups.iter().find(of_first).map(|other| &other.key) == Some(&group.key) {
        let beyond = |left: &Amount| left.bytes.saturating_sub(class.left[0].bytes);
        let charged = class
            .left
            .iter()
            .map(|left| first.amount.bytes + beyond(left));
        leaked.charged = charged.collect();
    }
    if own.count < first.amount.count {
        leaked.finding.notes.push(format!(
            "each later run left at least as much, but not always at the same call site; the last run \
             left {} in total",
            all.text("object")
        ));
    }
    leaked.records = group.kept_in_all().records;
    Some(leaked)
}

/// Returns the amount that each run is confirmed to lose and, separately, the one-time set-up.
fn confirmed(group: &Group, class: &ClassHistory<'_>, input: &CheckInput) -> Vec<Found> {
    let first = first_kept(group).unwrap_or(0);
    let (earlier, later) = (&group.kept[first], &group.kept[group.kept.len() - 1]);
    let (tally, run) = each_run(group);
    let mut leaked = of_group(FindingKind::Leaked, group, tally, run, input);
    leaked.finding.confirmed = confirmation(&kept_in(group), later.amount);
    leaked.charged = group.kept.iter().map(|it| it.amount.bytes).collect();
    // Anything that this run left beyond the amount of the finding is one-time set-up.
    leaked.charged[first] = leaked.finding.bytes;
    leaked.records = group.kept_in_all().records;
    let mut found = vec![leaked];
    // The rest may already be confirmed at another call site.
    if loses_less(group, first) && !class.residual[first].is_zero() {
        let once = group.part(first, earlier.amount.minus(later.amount));
        found.push(of_group(FindingKind::FirstUse, group, &once, first, input));
    }
    found
}

/// Reports a group if every run left something of the same layer, place and kind, regardless of the
/// call sites. The leaks of the first run are reported. The leaks of later runs at other call sites
/// confirm them.
fn by_class(group: &Group, class: &ClassHistory<'_>, input: &CheckInput) -> Option<Found> {
    let last = group.kept.len() - 1;
    let others = class.groups.iter().filter(|group| !is_confirmed(group));
    let earliest = others.clone().filter_map(|group| first_kept(group)).min();
    // A group that left nothing in that run is not reported itself. Its leaks confirm the leaks of
    // that run.
    let run = earliest.filter(|run| !group.kept[*run].amount.is_zero())?;
    let mut leaked = of_group(FindingKind::Leaked, group, &group.kept[run], run, input);
    let in_last = others.clone();
    let in_last = in_last.filter(|other| !other.kept[last].amount.is_zero());
    let sum = class.residual[last];
    leaked.finding.confirmed = confirmation(&vec![true; last + 1], sum);
    // The leak of another run is charged only once, even if this run left something at several call
    // sites.
    let mut of_run = others
        .clone()
        .filter(|other| !other.kept[run].amount.is_zero());
    let is_first = of_run.next().is_some_and(|first| first.key == group.key);
    let left_in = |other: usize| match is_first && other != run {
        true => total(others.clone().map(|group| group.kept[other].amount.bytes)),
        false => 0,
    };
    leaked.charged = (0..=last).map(left_in).collect();
    leaked.charged[run] = leaked.finding.bytes;
    let elsewhere = in_last.clone().filter(|other| other.key != group.key);
    if let Some(other) = elsewhere.max_by_key(|other| other.kept[last].amount.bytes) {
        leaked.finding.notes.push(format!(
            "each run left resources at a different call site; the last run left {}, mostly at {}",
            sum.text("object"),
            location(&input.names, other)
        ));
    }
    leaked
        .records
        .extend(in_last.flat_map(|other| &other.kept[last].records));
    leaked.records.sort_unstable();
    Some(leaked)
}

/// Reports the resources of an unconfirmed group as deferred, as first use, or as both.
fn unconfirmed(group: &Group, class: &ClassHistory<'_>, input: &CheckInput) -> Vec<Found> {
    let last = group.kept.len() - 1;
    let first = first_kept(group);
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
    // A replacement at the same line may come through another call path.
    let is_same_line = |other: &&&Group| other.line.is_some() && other.line == group.line;
    let mut of_line = class.groups.iter().filter(is_same_line);
    let replaces = deferred.is_some() || of_line.any(|other| has_deferred(other));
    let only_replaces = replaces && first == Some(last);
    if !kept.amount.is_zero() && !only_replaces {
        let run = first.unwrap_or(0);
        let mut once = of_group(FindingKind::FirstUse, group, &kept, run, input);
        if run != 0 {
            once.finding.notes.push(format!(
                "only run {} of {} left this; findings cannot be confirmed if the test behaves \
                 differently in each run",
                run + 1,
                last + 1
            ));
        }
        found.push(once);
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::judge::{CheckInput, Facts, LiveRecord, RunInput, Trend, held, judge};
    use crate::ledger::event::{Caller, ContextUid, Creation, Key, Space, ThreadNumber};
    use crate::ledger::{Kind, Layer, Place, Record, ScopeId, StackId};
    use crate::report::{CheckStatus, Confirmation, FindingKind};

    fn record(sequence: u64) -> Record {
        let made = Creation {
            key: Key::new(Space::DevicePointer, sequence),
            kind: Kind::Linear,
            layer: Layer::DRIVER,
            place: Place::cuda(0),
            bytes: 8,
            context: ContextUid(1),
            stream: 0,
            pool: 0,
            caller: Caller {
                thread: ThreadNumber(1),
                scope: ScopeId::NONE,
                stack: StackId(1),
            },
        };
        Record { sequence, made }
    }

    /// Returns the input of a whole program with this many live allocations at the end of its only
    /// run.
    fn program(live: u64) -> CheckInput {
        CheckInput {
            facts: Facts {
                whole_program: true,
                ..Facts::default()
            },
            runs: vec![RunInput {
                as_expected: true,
                saw_events: true,
                live: (1..=live).map(|it| LiveRecord::own(record(it))).collect(),
                ..RunInput::default()
            }],
            ..CheckInput::default()
        }
    }

    #[test]
    fn memory_held_until_interpreter_shutdown_is_deferred_unless_it_grew() {
        let mut input = program(0);
        input.runs[0].freed_by_shutdown = (1..=5).map(record).collect();
        let result = judge(&input);
        assert_eq!(result.status, CheckStatus::Found(FindingKind::Deferred));
        let [finding] = &result.findings[..] else {
            panic!("{:?}", result.findings);
        };
        assert_eq!((finding.count, finding.bytes), (5, 40));
        assert_eq!(finding.confirmed, Some(Confirmation::UntilShutdown));

        let mut trend = Trend::default();
        for live in 1..=5 {
            trend.add(&held(&program(live)));
        }
        input.trend = Some(trend);
        let result = judge(&input);
        assert_eq!(result.status, CheckStatus::Found(FindingKind::Grew));
        assert_eq!(result.findings[0].bytes, 40);
    }
}
