//! Adds to a leak where its siblings were freed, and through which callers they were allocated.
//! Siblings are other resources created on the same line. The mistake is often where they differ
//! from the leak, for example in a branch that returns early.
//!
//! If no sibling was freed, adds where the companions of the leak were freed. Companions are other
//! resources that the same function created. A `Drop` may forget one of two fields, for example.
//!
//! Where resources were freed is known only for runs that confirm a leak, because only such runs
//! capture the stacks of frees.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::finding::Found;
use super::input::CheckInput;
use super::passages::{FileAndLine, FreedSite, SourceFunction, function, line};
use super::{chronology, passages};
use crate::ledger::Kind;
use crate::report::{Companion, Finding, FindingKind, Frame, Owner, Sibling, Site};

/// The largest number of call sites of frees that a finding lists.
const MOST_PLACES: usize = 3;
/// The largest number of companions that a finding lists.
const MOST_COMPANIONS: usize = 2;

/// Adds to each leak where its siblings or companions were freed, in the last run with this
/// information.
pub(super) fn add(found: &mut [Found], input: &CheckInput) {
    let mut runs = input.judged_runs().iter().rev();
    let run = runs.find(|run| !run.freed_of_run.is_empty());
    let leaks = found.iter_mut().map(|found| &mut found.finding);
    let mut leaks = leaks
        .filter(|finding| finding.kind == FindingKind::Leaked)
        .peekable();
    if leaks.peek().is_none() {
        return;
    }
    let freed = run.iter().flat_map(|run| &run.freed_of_run);
    let freed = freed.map(|freed| FreedSite {
        freed,
        allocated: input.names.site(freed.allocated, freed.kind),
        at: input.names.site(freed.freed, freed.kind),
    });
    let freed: Vec<_> = freed.collect();
    let mut by_line: FxHashMap<FileAndLine<'_>, Vec<&FreedSite<'_>>> = FxHashMap::default();
    let mut by_function: FxHashMap<SourceFunction<'_>, Vec<&FreedSite<'_>>> = FxHashMap::default();
    for one in &freed {
        if let Some(line) = one.allocated.user_frame().and_then(line) {
            by_line.entry(line).or_default().push(one);
        }
        let functions = one.allocated.users_frames().filter_map(function);
        for function in functions.collect::<FxHashSet<_>>() {
            by_function.entry(function).or_default().push(one);
        }
    }
    let test = &input.subject.test;
    for finding in leaks {
        let line = finding.site.user_frame().and_then(line);
        let of_line = line.and_then(|line| by_line.get(&line));
        let alike = of_line.into_iter().flatten().copied();
        let alike: Vec<_> = alike.filter(|freed| freed.is_like(finding)).collect();
        let order = run.and_then(|run| chronology::of_line(finding, &alike, run, input));
        let since = order.as_ref().map(|(_, since)| *since);
        finding.order = order.map(|(order, _)| order);
        finding.siblings = siblings(finding, &alike, test);
        if finding.siblings.is_empty() {
            let beside;
            (finding.companions, beside) = companions(finding, &by_function, test);
            finding.passages = passages::of_leak(finding, &beside, None, test);
        } else {
            finding.passages = passages::of_leak(finding, &alike, since, test);
        }
    }
}

/// Returns where the siblings of a finding were freed. Adds siblings with the same callers to the
/// finding's counts.
fn siblings(finding: &mut Finding, freed: &[&FreedSite<'_>], test: &str) -> Vec<Sibling> {
    let of_finding = freed.first().and_then(|_| finding.site.callers(test));
    let mut places: BTreeMap<_, u64> = BTreeMap::new();
    let mut freed_here = 0;
    for it in freed {
        let callers = it.allocated.callers(test);
        let from = callers.filter(|callers| of_finding.as_ref() != Some(callers));
        let from = from.map(|from| without_common_end(&from, of_finding.as_deref()));
        if from.is_none() {
            freed_here = it.freed.count.saturating_add(freed_here);
        }
        let at = shown_up_to(&finding.site, &it.at);
        let count = places.entry((at.shown(test), from)).or_default();
        *count = it.freed.count.saturating_add(*count);
    }
    // The same callers may have reached the line through a library along two paths.
    finding.freed = finding.freed.max(freed_here);
    finding.allocated = finding
        .allocated
        .max(finding.freed.saturating_add(finding.count));
    let sibling = |((freed_at, allocated_from), count)| Sibling {
        count,
        freed_at,
        allocated_from,
    };
    let mut siblings: Vec<_> = places.into_iter().map(sibling).collect();
    // Siblings with the finding's own callers come first. Otherwise, the most frequent siblings
    // come first.
    siblings.sort_by_key(|sibling| (sibling.allocated_from.is_some(), Reverse(sibling.count)));
    siblings.truncate(MOST_PLACES);
    siblings
}

/// Returns these callers without the outermost ones that they share with a finding.
fn without_common_end(callers: &str, of_finding: Option<&str>) -> String {
    let mut callers: Vec<&str> = callers.split(" ← ").collect();
    let mut others = of_finding.unwrap_or_default().rsplit(" ← ");
    while callers.len() > 1 && callers.last().copied() == others.next() {
        callers.pop();
    }
    callers.join(" ← ")
}

/// Returns the companions of a finding and how many of them were freed, starting with the most
/// frequent. Companions are resources that the same function created through the same callers on a
/// line other than the finding's, or of another kind on the same line. The innermost function that
/// has companions is chosen. The test's own function does not count, because a test creates
/// everything that it uses.
fn companions<'a>(
    finding: &Finding,
    by_function: &FxHashMap<SourceFunction<'_>, Vec<&'a FreedSite<'a>>>,
    test: &str,
) -> (Vec<Companion>, Vec<&'a FreedSite<'a>>) {
    let frames: Vec<_> = finding.site.users_frames().collect();
    for (at, frame) in frames.iter().enumerate() {
        let Some(function) = function(frame).filter(|_| !frame.is_of_test(test)) else {
            continue;
        };
        let callers = &frames[at + 1..];
        let mut places: BTreeMap<_, (Kind, u64, &FreedSite<'_>)> = BTreeMap::new();
        for one in by_function.get(&function).into_iter().flatten() {
            let all: Vec<_> = one.allocated.users_frames().collect();
            let Some(place) = all.len().checked_sub(callers.len() + 1) else {
                continue;
            };
            let (created, outer) = (all[place], &all[place + 1..]);
            let is_another = created.line != frame.line || Some(one.freed.kind) != finding.resource;
            let is_beside = self::function(created) == Some(function) && is_another;
            let outer = outer.iter().map(|it| line(it));
            if is_beside && outer.eq(callers.iter().map(|it| line(it))) {
                let at = shown_up_to(&finding.site, &one.at).shown(test);
                let key = (created.shown(), at, one.freed.kind.name());
                let (_, count, _) = places.entry(key).or_insert((one.freed.kind, 0, one));
                *count = one.freed.count.saturating_add(*count);
            }
        }
        if !places.is_empty() {
            let companion = |((created_in, freed_at, _), (resource, count, one))| {
                let companion = Companion {
                    resource,
                    count,
                    created_in,
                    freed_at,
                };
                (companion, one)
            };
            let mut companions: Vec<_> = places.into_iter().map(companion).collect();
            companions.sort_by_key(|(companion, _)| Reverse(companion.count));
            companions.truncate(MOST_COMPANIONS);
            return companions.into_iter().unzip();
        }
    }
    Default::default()
}

/// Returns where something was freed, with the callers of the free up to the first function that is
/// also a caller of the finding's line, because the rest would only repeat the path to that
/// function.
pub fn shown_up_to(finding: &Site, freed: &Site) -> Site {
    let known: FxHashSet<_> = finding.users_frames().filter_map(function).collect();
    let mut shown = freed.outside_wrapper();
    let callers = shown.user.map_or(0, |user| user.saturating_add(1));
    let is_common = |frame: &Frame| {
        frame.owner == Owner::User && function(frame).is_some_and(|it| known.contains(&it))
    };
    let common = shown.frames.iter().skip(callers).position(is_common);
    if let Some(common) = common {
        shown.frames.truncate(callers + common + 1);
    }
    shown
}
