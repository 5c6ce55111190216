//! Says of a leak where others of the same line were freed, and through which callers they were
//! allocated: the difference is often the mistake, such as a branch that returns early. If none was
//! freed, it says where something else was freed that the same function created, for example in a
//! `Drop` that forgets one of two.
//!
//! Only runs that confirm a leak know it, because the stacks of frees are taken only there.

use std::collections::BTreeMap;

use super::finding::Found;
use super::input::{CheckInput, FreedAt};
use crate::ledger::Kind;
use crate::report::{Companion, Finding, FindingKind, Frame, Owner, Sibling, Site};

/// How many places of frees a finding names.
const MOST_PLACES: usize = 3;
/// How many companions a finding names.
const MOST_COMPANIONS: usize = 2;

/// Adds to each leak where its siblings were freed in the last run that knows.
pub(super) fn add(found: &mut [Found], input: &CheckInput) {
    let runs = input.judged_runs().iter().rev();
    let Some(run) = runs.clone().find(|run| !run.freed_of_run.is_empty()) else {
        return;
    };
    for Found { finding, .. } in found {
        if finding.kind != FindingKind::Leaked {
            continue;
        }
        let mut places: BTreeMap<(String, Option<String>), u64> = BTreeMap::new();
        for freed in &run.freed_of_run {
            if (freed.layer, Some(freed.kind)) != (finding.layer, finding.resource) {
                continue;
            }
            let allocated = input.names.site(freed.allocated, freed.kind);
            if let Some(from) = difference(&allocated, finding, &input.subject.test) {
                let at = input.names.site(freed.freed, freed.kind);
                let at = shown_up_to(&finding.site, at, &input.subject.test);
                *places.entry((at, from)).or_default() += freed.count;
            }
        }
        let sibling = |((freed_at, allocated_from), count)| Sibling {
            count,
            freed_at,
            allocated_from,
        };
        finding.siblings = places.into_iter().map(sibling).collect();
        // Stable: those of the finding's own callers come first, the largest first.
        finding.siblings.sort_by_key(|sibling| {
            let is_other = sibling.allocated_from.is_some();
            (is_other, u64::MAX - sibling.count)
        });
        finding.siblings.truncate(MOST_PLACES);
        if finding.siblings.is_empty() {
            finding.companions = companions(finding, &run.freed_of_run, input);
        }
    }
}

/// Returns what was freed and created by the same function as a finding, through the same callers. The
/// closest function comes first, then the most.
fn companions(finding: &Finding, freed: &[FreedAt], input: &CheckInput) -> Vec<Companion> {
    let test = &input.subject.test;
    let mut places: BTreeMap<(usize, String, String, String), (Kind, u64)> = BTreeMap::new();
    for freed in freed {
        let site = input.names.site(freed.allocated, freed.kind);
        let Some((frame, distance)) = in_the_same_function(&finding.site, &site, test) else {
            continue;
        };
        let at = input.names.site(freed.freed, freed.kind);
        let at = shown_up_to(&finding.site, at, test);
        let key = (distance, frame.shown(), at, freed.kind.name().to_owned());
        places.entry(key).or_insert((freed.kind, 0)).1 += freed.count;
    }
    let found = places.into_iter();
    let companion = |((_, created_in, freed_at, _), (resource, count))| Companion {
        resource,
        count,
        created_in,
        freed_at,
    };
    found.map(companion).take(MOST_COMPANIONS).collect()
}

/// Returns the frame of `site` in the innermost function that both sites have in common, if they have
/// it on different lines and all its callers are the same; and how far it is from the finding's own line.
/// A test itself creates all that it uses, so it does not count.
fn in_the_same_function<'a>(
    finding: &Site,
    site: &'a Site,
    test: &str,
) -> Option<(&'a Frame, usize)> {
    let of_finding = users_frames(finding);
    let of_site = users_frames(site);
    let pairs = of_finding.iter().rev().zip(of_site.iter().rev());
    let is_same = |(one, other): &(&&Frame, &&Frame)| {
        (&one.function, &one.file, one.line) == (&other.function, &other.file, other.line)
    };
    let common = pairs.take_while(is_same).count();
    let distance = of_finding.len().checked_sub(common + 1)?;
    let one = of_finding[distance];
    let other = *of_site.get(of_site.len().checked_sub(common + 1)?)?;
    let is_one_function = one.function.is_some()
        && (&one.function, &one.file) == (&other.function, &other.file)
        && !other.is_of_test(test);
    is_one_function.then_some((other, distance))
}

/// Shows where something was freed, with its callers up to the first function that the finding's own line
/// has as well: the rest would only repeat how the program got there.
fn shown_up_to(finding: &Site, mut freed: Site, test: &str) -> String {
    let known: Vec<_> = users_frames(finding)
        .into_iter()
        .map(|frame| (&frame.function, &frame.file))
        .collect();
    let callers = freed.user.map_or(0, |user| user.saturating_add(1));
    let is_common = |frame: &Frame| {
        frame.owner == Owner::User
            && frame.function.is_some()
            && known.contains(&(&frame.function, &frame.file))
    };
    let common = freed.frames.iter().skip(callers).position(is_common);
    if let Some(common) = common {
        freed.frames.truncate(callers + common + 1);
    }
    freed.shown(test)
}

/// The frames of the program's own functions from a site's line outwards.
fn users_frames(site: &Site) -> Vec<&Frame> {
    let frames = site.user.and_then(|user| site.frames.get(user..));
    let frames = frames.unwrap_or_default().iter();
    frames.filter(|frame| frame.owner == Owner::User).collect()
}

/// Compares a call site with that of a finding: `None` if it is on another line, `Some(None)` if
/// the callers are the same, and otherwise its callers.
fn difference(site: &Site, finding: &Finding, test: &str) -> Option<Option<String>> {
    let line = |site: &Site| {
        let frame = site.user_frame()?;
        Some((frame.file.clone()?, frame.line?))
    };
    (line(site)? == line(&finding.site)?).then(|| {
        let callers = site.callers(test);
        callers.filter(|callers| finding.site.callers(test).as_ref() != Some(callers))
    })
}
