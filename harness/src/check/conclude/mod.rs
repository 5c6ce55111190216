//! From one run, or two, to a report.

pub(crate) mod expect;
pub(crate) mod finding;
mod over;
pub(crate) mod referrers;
mod refused;
pub(crate) mod rounds;
pub(crate) mod sites;
pub(crate) mod tables;
pub(crate) mod uncounted;

use std::panic::Location;

use self::finding::{finding, left_after};
use self::rounds::Rounds;
use self::sites::{Sites, site};
use super::blind::Blindness;
use super::measure::sources::Poisoned;
use super::measure::{Measured, timeline, uncovered};
use super::names::Names;
use crate::allow::{self, Date, Entry};
use crate::case::Case;
use crate::code::Code;
use crate::judge::{self, Confirmed, Held, Reading, What, confirm};
use crate::ledger::Layer;
use crate::order;
use crate::report::again;
use crate::report::model::{CheckStatus, Confirmation, Finding, FindingKind, Reason, Report};
use crate::units;

/// What a check is called and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) test: &'a str,
    pub(crate) file: &'a str,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) again: Option<String>,
    /// What may stay.
    pub(crate) allowed: Vec<Entry>,
}

impl<'a> Subject<'a> {
    /// That of an annotated test.
    pub(crate) fn of(case: &'a Case) -> Self {
        Self {
            test: case.name(),
            file: case.origin.file,
            line: case.origin.line,
            column: case.origin.column,
            again: again::command(case),
            allowed: Vec::new(),
        }
    }

    /// That of a stretch called `test` that code began at this place: no command runs it alone, and
    /// nothing may stay.
    pub(crate) fn at(test: &'a str, place: &'static Location<'static>) -> Self {
        Self {
            test,
            file: place.file(),
            line: place.line(),
            column: place.column(),
            again: None,
            allowed: Vec::new(),
        }
    }
}

/// Puts the runs of one check together.
pub(crate) fn conclude(
    subject: Subject<'_>,
    first: &Measured,
    second: Option<&Measured>,
    blindness: Option<&Blindness>,
    names: &dyn Names,
) -> Report {
    let lost = is_lost(blindness);
    let mut findings: Vec<Finding> = compare(first, second, names)
        .iter()
        .filter(|confirmed| !(lost && may_be_gone(&confirmed.held)))
        .filter(|confirmed| !is_kept_by_broken(&confirmed.held, first))
        .map(|confirmed| finding(confirmed, Some(first), names))
        .collect();
    let again = second.filter(|second| second.as_expected);
    findings.extend(over::findings(
        &first.over,
        again.map(|again| &*again.over),
        names,
    ));
    findings.extend(allowed(first, lost, names));
    let notes = notes(first, second);
    let after = &first.after;
    let mut report = report(subject, first, after, findings, notes, blindness, names);
    report.timeline = timeline::of_runs(&first.timeline, second.map(|it| &it.timeline));
    if let Some(again) = again {
        tables::complete(&mut report.devices, &again.before, &again.after, names);
    }
    report
}

/// Puts the rounds of one check together.
pub(crate) fn conclude_rounds(
    subject: Subject<'_>,
    rounds: &Rounds,
    blindness: Option<&Blindness>,
    names: &dyn Names,
) -> Report {
    let lost = is_lost(blindness);
    let grown = rounds
        .grown
        .iter()
        .filter(|grown| !(lost && may_be_gone(&grown.held)))
        .filter(|grown| !is_kept_by_broken(&grown.held, &rounds.first));
    let grown = grown.map(|grown| Finding {
        kind: FindingKind::Grew,
        rounds: left_after(&grown.levels),
        // Its calls are those of several rounds.
        when: None,
        ..finding(
            &Confirmed::unconfirmed(grown.held.clone()),
            Some(&rounds.first),
            names,
        )
    });
    let last = rounds.last.as_ref().unwrap_or(&rounds.first);
    let mut findings: Vec<_> = grown.collect();
    let incidents = rounds.incidents.iter().cloned();
    findings.extend(incidents.map(|held| {
        let incident = Confirmed::unconfirmed(held);
        finding(&incident, Some(&rounds.first), names)
    }));
    findings.extend(over::findings(&rounds.first.over, None, names));
    findings.extend(allowed(last, lost, names));
    let notes = rounds.first.notes.clone();
    Report {
        timeline: timeline::of_rounds(&rounds.timelines),
        ..report(
            subject,
            &rounds.first,
            &last.after,
            findings,
            notes,
            blindness,
            names,
        )
    }
}

fn report(
    subject: Subject<'_>,
    first: &Measured,
    after: &Reading,
    mut findings: Vec<Finding>,
    mut notes: Vec<String>,
    blindness: Option<&Blindness>,
    names: &dyn Names,
) -> Report {
    notes.extend(allow::settle(
        &subject.allowed,
        Date::today(),
        &mut findings,
    ));
    sort(&mut findings);
    notes.extend(refused::notes(&first.refused, names));
    notes.extend(names.misled());
    let reason = reason(first, blindness, names);
    let (verdict, reason) = match (findings.first(), reason) {
        // What fails nothing tells nothing of what could not be seen.
        (Some(finding), Some((verdict, reason))) if !finding.kind.is_failure() => {
            (verdict, Some(reason))
        }
        // A finding is a finding, whatever else could not be seen.
        (Some(finding), Some((CheckStatus::Inconclusive, reason))) => {
            notes.push(format!("{}; {}", reason.what, reason.remedy));
            (CheckStatus::Found(finding.kind), None)
        }
        (Some(finding), _) => (CheckStatus::Found(finding.kind), None),
        (None, Some((verdict, reason))) => (verdict, Some(reason)),
        (None, None) => (CheckStatus::Clean, None),
    };
    Report {
        reason,
        findings,
        devices: tables::tables(&first.before, after, names),
        notes,
        primaries: first.primaries.clone(),
        again: subject.again,
        ..Report::new(
            subject.test,
            subject.file,
            subject.line,
            subject.column,
            verdict,
        )
    }
}

/// Worst first, then largest.
pub(crate) fn sort(findings: &mut [Finding]) {
    order::by_key(findings, |finding| {
        (
            finding.kind,
            std::cmp::Reverse(finding.bytes),
            std::cmp::Reverse(finding.count),
        )
    });
}

fn notes(first: &Measured, second: Option<&Measured>) -> Vec<String> {
    let mut notes = first.notes.clone();
    if second.is_some_and(|second| !second.as_expected) {
        notes.push(
            "the second run of the body, made to confirm the findings, did not end as it should; \
             `confirm = false` is for bodies that can run only once"
                .to_owned(),
        );
    }
    notes
}

fn is_lost(blindness: Option<&Blindness>) -> bool {
    blindness.is_some_and(|blindness| blindness.verdict == CheckStatus::Inconclusive)
}

/// Whether this is the reserve of a pool that could not be emptied: in a broken context nothing
/// can be waited for, and what was freed in a stream's order is not free yet.
fn is_kept_by_broken(held: &Held, run: &Measured) -> bool {
    let broken = run.poisoned_inside.or(run.poisoned_before);
    matches!(held.key.what, What::Reserve(_))
        && held.key.layer == Layer::DRIVER
        && broken.is_some_and(|broken| broken.place == held.key.place)
}

/// Whether what is held may have been freed unseen after the tracer was lost.
fn may_be_gone(held: &Held) -> bool {
    held.key.layer == Layer::DRIVER && matches!(held.key.what, What::Live(_) | What::Reserve(_))
}

/// The findings of the first run in the light of the second. A free that failed is no one-time
/// set-up, whatever the second run does.
fn compare(first: &Measured, second: Option<&Measured>, names: &dyn Names) -> Vec<Confirmed> {
    let mut all = confirmed(first, second, names);
    name_what_pins(&mut all, first, second, names);
    all
}

fn confirmed(first: &Measured, second: Option<&Measured>, names: &dyn Names) -> Vec<Confirmed> {
    let mut sites = Sites::new(names);
    let first = sites.merge(&first.held);
    let Some(second) = second.filter(|second| second.as_expected) else {
        return first.into_iter().map(Confirmed::unconfirmed).collect();
    };
    let both = sites.merge(&second.held);
    let same_line = |one: &Held, other: &Held| sites::is_same_line(one, other, names);
    let mut second = judge::gained(&first, both, same_line);
    sites.align(&first, &mut second);
    let fails = |held: &Held| matches!(held.key.what, What::FailedFree { .. });
    let (failed, others) = first.into_iter().partition(fails);
    let mut all = confirm(others, &second);
    all.extend(Vec::into_iter(failed).map(Confirmed::unconfirmed));
    all
}

/// A reserve that stands alone is pinned by what was tolerated, if anything. A run that leaves such
/// a thing again is not set up by it, though the reserve it pins need not grow again.
fn name_what_pins(
    all: &mut [Confirmed],
    first: &Measured,
    second: Option<&Measured>,
    names: &dyn Names,
) {
    for reserve in all {
        if !matches!(reserve.held.key.what, What::Reserve(_)) {
            continue;
        }
        let held = reserve.held.clone();
        let pins = |pin: &&Held| judge::pins(pin, &held);
        let pinning: Vec<_> = first.tolerated.iter().filter(pins).cloned().collect();
        let named = pinning.iter().map(|pin| {
            format!(
                "pinned by {}, {}, taken at {}: within the tolerance",
                units::quantity(pin.count, "block"),
                units::exact_size(pin.bytes),
                site(pin.key.stack, pin, names).location()
            )
        });
        reserve.held.notes.extend(named);
        // Of both runs together, more may be left than is tolerated.
        let second = second.map(|second| second.tolerated.iter().chain(&second.held));
        let second: Vec<_> = second.into_iter().flatten().filter(pins).cloned().collect();
        let same_line = |one: &Held, other: &Held| sites::is_same_line(one, other, names);
        let again = judge::gained(&pinning, second, same_line);
        if reserve.first_use && !again.is_empty() {
            reserve.first_use = false;
            reserve.second = Some(Confirmation::by_second_run(
                again.iter().map(|pin| pin.count).sum(),
                judge::total(again.iter().map(|pin| pin.bytes)),
            ));
        }
    }
}

/// What may stay by the word of the code that made it.
fn allowed(run: &Measured, lost: bool, names: &dyn Names) -> Vec<Finding> {
    // What stays for one reason is not put together with what stays for another.
    let by_reason = run
        .allowed
        .chunk_by(|one, next| one.allowed == next.allowed);
    let mut told: Vec<_> = by_reason
        .flat_map(|held| Sites::new(names).merge(held))
        .collect();
    told.retain(|held| !(lost && may_be_gone(held)));
    let finding = |held| Finding {
        kind: FindingKind::Allowed,
        ..finding(&Confirmed::unconfirmed(held), Some(run), names)
    };
    told.into_iter().map(finding).collect()
}

/// Why there is no verdict of the check's own.
fn reason(
    first: &Measured,
    blindness: Option<&Blindness>,
    names: &dyn Names,
) -> Option<(CheckStatus, Reason)> {
    if let Some(poisoned) = &first.poisoned_before {
        return Some((CheckStatus::Inconclusive, poisoned_reason(poisoned, names)));
    }
    if let Some(blindness) = blindness {
        return Some((blindness.verdict, blindness.reason.clone()));
    }
    if let Some(poisoned) = &first.poisoned_inside
        && first.held.iter().any(|held| is_kept_by_broken(held, first))
    {
        return Some((CheckStatus::Inconclusive, poisoned_reason(poisoned, names)));
    }
    uncovered::reason(&first.uncovered).map(|reason| (CheckStatus::Inconclusive, reason))
}

fn poisoned_reason(poisoned: &Poisoned, names: &dyn Names) -> Reason {
    let error = names.error(poisoned.error);
    let by = names.culprit().map_or_else(
        || "outside every check of this process so far".to_owned(),
        |test| format!("by {test}"),
    );
    Reason::new(
        Code::Poisoned,
        format!(
            "the context on {} was left in the state {error} {by}",
            poisoned.place
        ),
        "mend the test that did it first; a process per test (nextest) keeps the others apart",
    )
}
