//! From one run, or two, to a report.

use super::blind::Blindness;
use super::measure::Measured;
use super::names::Names;
use super::over;
use super::rounds::Rounds;
use super::sites::{Sites, site};
use super::sources::Poisoned;
use crate::judge::{self, Confirmed, Held, LevelName, Reading, What, confirm};
use crate::ledger::event::ContextEnd;
use crate::ledger::{Layer, Place};
use crate::report::model::{
    Confirmation, DeviceTable, FailedRelease, Figure, Finding, Left, Reason, Report, Row, Verdict,
};
use crate::report::units;

/// What a check is called and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) test: &'a str,
    pub(crate) file: &'a str,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) again: Option<String>,
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
        .map(|confirmed| finding(confirmed, names))
        .collect();
    let again = second.filter(|second| second.as_expected);
    findings.extend(over::findings(
        &first.over,
        again.map(|again| &*again.over),
        names,
    ));
    let notes = notes(first, second);
    report(
        subject,
        first,
        &first.after,
        findings,
        notes,
        blindness,
        names,
    )
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
        .filter(|grown| !(lost && may_be_gone(&grown.held)));
    let grown = grown.map(|grown| Finding {
        verdict: Verdict::Grew,
        rounds: grown
            .levels
            .iter()
            .map(|level| Left {
                count: level.count,
                bytes: level.bytes,
            })
            .collect(),
        ..finding(&unconfirmed(grown.held.clone()), names)
    });
    let last = rounds.last.as_ref().unwrap_or(&rounds.first);
    let incidents = [&rounds.first]
        .into_iter()
        .chain(&rounds.last)
        .flat_map(|round| &round.held);
    let incidents = incidents.filter(|held| judge::is_an_incident(held));
    let mut findings: Vec<_> = grown.collect();
    findings.extend(incidents.map(|held| finding(&unconfirmed(held.clone()), names)));
    findings.extend(over::findings(&rounds.first.over, None, names));
    let notes = rounds.first.notes.clone();
    report(
        subject,
        &rounds.first,
        &last.after,
        findings,
        notes,
        blindness,
        names,
    )
}

fn report(
    subject: Subject<'_>,
    first: &Measured,
    after: &Reading,
    mut findings: Vec<Finding>,
    notes: Vec<String>,
    blindness: Option<&Blindness>,
    names: &dyn Names,
) -> Report {
    findings.sort_by_key(|finding| {
        (
            finding.verdict,
            std::cmp::Reverse(finding.bytes),
            std::cmp::Reverse(finding.count),
        )
    });
    let reason = reason(first, blindness, names);
    let verdict = match (findings.first(), &reason) {
        (Some(finding), _) => finding.verdict,
        (None, Some((verdict, _))) => *verdict,
        (None, None) => Verdict::Clean,
    };
    Report {
        test: subject.test.to_owned(),
        file: subject.file.to_owned(),
        line: subject.line,
        column: subject.column,
        verdict,
        reason: reason.map(|(_, reason)| reason),
        findings,
        devices: tables(&first.before, after, names),
        notes,
        again: subject.again,
        waited_ms: 0,
        overhead_ms: 0.0,
    }
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
    blindness.is_some_and(|blindness| blindness.verdict == Verdict::Inconclusive)
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

fn unconfirmed(held: Held) -> Confirmed {
    Confirmed {
        held,
        second: None,
        first_use: false,
    }
}

fn confirmed(first: &Measured, second: Option<&Measured>, names: &dyn Names) -> Vec<Confirmed> {
    let mut sites = Sites::new(names);
    let first = sites.merge(&first.held);
    let Some(second) = second.filter(|second| second.as_expected) else {
        return first.into_iter().map(unconfirmed).collect();
    };
    let mut second = sites.merge(&second.held);
    sites.align(&first, &mut second);
    let fails = |held: &Held| matches!(held.key.what, What::FailedFree { .. });
    let (failed, others) = first.into_iter().partition(fails);
    let mut all = confirm(others, &second);
    all.extend(Vec::into_iter(failed).map(unconfirmed));
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
        let pins = |measured: &Measured| {
            let mut pins = measured.tolerated.clone();
            pins.retain(|pin| judge::pins(pin, &held));
            pins
        };
        let named = pins(first).into_iter().map(|pin| {
            format!(
                "pinned by {}, {}, taken at {}: within the tolerance",
                units::quantity(pin.count, "block"),
                units::exact_size(pin.bytes),
                site(pin.key.stack, &pin, names).location()
            )
        });
        reserve.held.notes.extend(named);
        let again = second.map(pins).unwrap_or_default();
        if reserve.first_use && !again.is_empty() {
            reserve.first_use = false;
            reserve.second = Some(Confirmation {
                count: again.iter().map(|pin| pin.count).sum(),
                bytes: judge::total(again.iter().map(|pin| pin.bytes)),
            });
        }
    }
}

fn finding(confirmed: &Confirmed, names: &dyn Names) -> Finding {
    let held = &confirmed.held;
    let (verdict, kind) = match held.key.what {
        What::Live(kind) | What::EndedWithContext(kind, _) => (Verdict::Leaked, Some(kind)),
        What::FailedFree { kind, .. } => (Verdict::FailedFree, kind),
        What::Reserve(_) => (Verdict::Retained, None),
    };
    let mut notes = held.notes.clone();
    match &held.key.what {
        What::EndedWithContext(_, cause) => notes.push(
            match cause {
                ContextEnd::Destroyed => "freed only because its context was destroyed",
                ContextEnd::LastRelease => {
                    "freed only because the last primary context was released"
                }
                ContextEnd::Reset => "freed only because the device was reset",
            }
            .to_owned(),
        ),
        What::Reserve(_) | What::Live(_) | What::FailedFree { .. } => {}
    }
    let failed = match held.key.what {
        What::FailedFree { error, at, .. } => Some(FailedRelease {
            error: names.error(error),
            code: error,
            site: site(at, held, names),
        }),
        _ => None,
    };
    Finding {
        verdict: if confirmed.first_use {
            Verdict::FirstUse
        } else {
            verdict
        },
        layer: held.key.layer,
        kind,
        holder: match &held.key.what {
            What::Reserve(name) => Some(name.clone()),
            _ => None,
        },
        place: held.key.place,
        count: held.count,
        bytes: held.bytes,
        each: held.each,
        site: site(held.key.stack, held, names),
        taken: held.taken,
        given_back: held.taken.saturating_sub(held.count),
        confirmed: if confirmed.first_use {
            None
        } else {
            confirmed.second
        },
        failed,
        rounds: Vec::new(),
        budget: None,
        foreign_thread: held.foreign_thread.map(|thread| names.thread(thread)),
        notes,
    }
}

/// Why there is no verdict of the check's own.
fn reason(
    first: &Measured,
    blindness: Option<&Blindness>,
    names: &dyn Names,
) -> Option<(Verdict, Reason)> {
    if let Some(poisoned) = &first.poisoned_before {
        return Some((Verdict::Inconclusive, poisoned_reason(poisoned, names)));
    }
    blindness.map(|blindness| (blindness.verdict, blindness.reason.clone()))
}

fn poisoned_reason(poisoned: &Poisoned, names: &dyn Names) -> Reason {
    let error = names.error(poisoned.error);
    let by = names.culprit().map_or_else(
        || "before the first check of this process".to_owned(),
        |test| format!("by {test}"),
    );
    Reason {
        code: "poisoned".into(),
        what: format!(
            "the context on {} was left in the state {error} {by}",
            poisoned.place
        ),
        remedy: "mend the test that did it first; a process per test (nextest) keeps the others \
                 apart"
            .into(),
    }
}

/// What each device held before and after, the driver first.
fn tables(before: &Reading, after: &Reading, names: &dyn Names) -> Vec<DeviceTable> {
    let mut places = before.places();
    places.extend(after.places());
    places.sort_unstable_by_key(|place| (*place == Place::HOST, *place));
    places.dedup();
    places
        .into_iter()
        .map(|place| table(place, before, after, names))
        .collect()
}

fn table(place: Place, before: &Reading, after: &Reading, names: &dyn Names) -> DeviceTable {
    let mut levels: Vec<&LevelName> = Vec::new();
    for level in before
        .levels
        .iter()
        .chain(&after.levels)
        .filter(|level| level.place == place)
    {
        if !levels.contains(&&level.name) {
            levels.push(&level.name);
        }
    }
    levels.sort();
    let mut rows = Vec::new();
    for name in levels {
        let (was, is) = (before.level(name, place), after.level(name, place));
        let row = |figure, baseline, after, peak| Row {
            layer: name.to_string(),
            figure,
            baseline,
            after,
            peak,
            remark: None,
        };
        let allocated = |level: Option<&judge::Level>| level.map_or(0, |l| l.allocated);
        let reserved = |level: Option<&judge::Level>| level.and_then(|l| l.reserved);
        if !matches!(name, LevelName::Pool(_)) {
            let peak = is.and_then(|level| level.peak);
            rows.push(row(Figure::Allocated, allocated(was), allocated(is), peak));
        }
        if let (Some(_), _) | (_, Some(_)) = (reserved(was), reserved(is)) {
            let (was, is) = (reserved(was).unwrap_or(0), reserved(is).unwrap_or(0));
            if was != 0 || is != 0 {
                rows.push(row(Figure::Reserved, was, is, None));
            }
        }
    }
    let (was, is) = (before.handles_at(place), after.handles_at(place));
    if is.peak != 0 || was.live != 0 {
        rows.push(Row {
            layer: "handles".into(),
            figure: Figure::Handles,
            baseline: was.live,
            after: is.live,
            peak: Some(is.peak),
            remark: None,
        });
    }
    let identity = names.device(place);
    DeviceTable {
        place,
        name: identity.as_ref().map(|identity| identity.name.clone()),
        uuid: identity.and_then(|identity| identity.uuid),
        rows,
    }
}
