//! From one run, or two, to a report.

use super::blind::Blindness;
use super::measure::Measured;
use super::sites::{Sites, site};
use super::sources::Poisoned;
use super::uncovered;
use crate::capture;
use crate::device::contexts::device_name;
use crate::device::errors::error_name;
use crate::device::{memory, neighbours};
use crate::judge::{self, Confirmed, Held, LevelName, Reading, What, confirm};
use crate::ledger::event::ContextEnd;
use crate::ledger::{Kind, Layer, Place};
use crate::report::model::{
    Confirmation, DeviceTable, FailedRelease, Figure, Finding, Reason, Report, Row, Verdict,
    WholeDevice,
};
use crate::units;

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
) -> Report {
    let lost = blindness.is_some_and(|blindness| blindness.verdict == Verdict::Inconclusive);
    let mut findings: Vec<Finding> = compare(first, second)
        .iter()
        .filter(|confirmed| !(lost && may_be_gone(&confirmed.held)))
        .map(finding)
        .collect();
    findings.sort_by_key(|finding| {
        (
            finding.verdict,
            std::cmp::Reverse(finding.bytes),
            std::cmp::Reverse(finding.count),
        )
    });
    let mut notes = first.notes.clone();
    if let Some(second) = second
        && !second.as_expected
    {
        notes.push(
            "the second run of the body, made to confirm the findings, did not end as it should; \
             `confirm = false` is for bodies that can run only once"
                .to_owned(),
        );
    }
    let reason = reason(first, blindness);
    let (verdict, reason) = match (findings.first(), reason) {
        // A finding is a finding, whatever else could not be seen.
        (Some(finding), Some((Verdict::Inconclusive, reason))) => {
            notes.push(format!("{}; {}", reason.what, reason.remedy));
            (finding.verdict, None)
        }
        (Some(finding), _) => (finding.verdict, None),
        (None, Some((verdict, reason))) => (verdict, Some(reason)),
        (None, None) => (Verdict::Clean, None),
    };
    Report {
        test: subject.test.to_owned(),
        file: subject.file.to_owned(),
        line: subject.line,
        column: subject.column,
        verdict,
        reason,
        findings,
        devices: tables(&first.before, &first.after),
        notes,
        again: subject.again,
        waited_ms: 0,
        overhead_ms: 0.0,
    }
}

/// Whether what is held may have been freed unseen after the tracer was lost.
fn may_be_gone(held: &Held) -> bool {
    held.key.layer == Layer::DRIVER && matches!(held.key.what, What::Live(_) | What::Reserve(_))
}

/// The findings of the first run in the light of the second. A free that failed is no one-time
/// set-up, whatever the second run does.
fn compare(first: &Measured, second: Option<&Measured>) -> Vec<Confirmed> {
    let mut all = confirmed(first, second);
    name_what_pins(&mut all, first, second);
    all
}

fn confirmed(first: &Measured, second: Option<&Measured>) -> Vec<Confirmed> {
    let mut sites = Sites::default();
    let first = sites.merge(&first.held);
    let unconfirmed = |held| Confirmed {
        held,
        second: None,
        first_use: false,
    };
    let Some(second) = second.filter(|second| second.as_expected) else {
        return first.into_iter().map(unconfirmed).collect();
    };
    let mut second = sites.merge(&second.held);
    Sites::align(&first, &mut second);
    let fails = |held: &Held| matches!(held.key.what, What::FailedFree { .. });
    let (failed, others) = first.into_iter().partition(fails);
    let mut all = confirm(others, &second);
    all.extend(Vec::into_iter(failed).map(unconfirmed));
    all
}

/// A reserve that stands alone is pinned by what was tolerated, if anything. A run that leaves such
/// a thing again is not set up by it, though the reserve it pins need not grow again.
fn name_what_pins(all: &mut [Confirmed], first: &Measured, second: Option<&Measured>) {
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
                site(pin.key.stack, &pin).location()
            )
        });
        reserve.held.notes.extend(named);
        let again = second.map(pins).unwrap_or_default();
        if reserve.first_use && !again.is_empty() {
            reserve.first_use = false;
            reserve.second = Some(Confirmation {
                count: again.iter().map(|pin| pin.count).sum(),
                bytes: again.iter().map(|pin| pin.bytes).sum(),
            });
        }
    }
}

fn finding(confirmed: &Confirmed) -> Finding {
    let held = &confirmed.held;
    let (verdict, kind) = match held.key.what {
        What::Live(kind) | What::EndedWithContext(kind, _) => (Verdict::Leaked, Some(kind)),
        What::FailedFree { kind, .. } => (Verdict::FailedFree, kind),
        What::HandedOut => (Verdict::Leaked, Some(Kind::Block)),
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
        What::HandedOut | What::Reserve(_) | What::Live(_) | What::FailedFree { .. } => {}
    }
    let failed = match held.key.what {
        What::FailedFree { error, at, .. } => Some(FailedRelease {
            error: error_name(error),
            code: error,
            site: site(at, held),
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
        site: site(held.key.stack, held),
        taken: held.taken,
        given_back: held.taken.saturating_sub(held.count),
        confirmed: if confirmed.first_use {
            None
        } else {
            confirmed.second
        },
        failed,
        foreign_thread: held.foreign_thread.map(capture::thread::thread_name),
        notes,
    }
}

/// Why there is no verdict of the check's own.
fn reason(first: &Measured, blindness: Option<&Blindness>) -> Option<(Verdict, Reason)> {
    if let Some(poisoned) = &first.poisoned_before {
        return Some((Verdict::Inconclusive, poisoned_reason(poisoned)));
    }
    if let Some(blindness) = blindness {
        return Some((blindness.verdict, blindness.reason.clone()));
    }
    uncovered::reason(&first.uncovered).map(|reason| (Verdict::Inconclusive, reason))
}

fn poisoned_reason(poisoned: &Poisoned) -> Reason {
    let error = error_name(poisoned.error);
    let by = super::poison::culprit().map_or_else(
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
fn tables(before: &Reading, after: &Reading) -> Vec<DeviceTable> {
    let mut places = before.places();
    places.extend(after.places());
    places.sort_unstable_by_key(|place| (*place == Place::HOST, *place));
    places.dedup();
    places
        .into_iter()
        .map(|place| table(place, before, after))
        .collect()
}

fn table(place: Place, before: &Reading, after: &Reading) -> DeviceTable {
    let mut names: Vec<&LevelName> = Vec::new();
    for level in before
        .levels
        .iter()
        .chain(&after.levels)
        .filter(|level| level.place == place)
    {
        if !names.contains(&&level.name) {
            names.push(&level.name);
        }
    }
    names.sort();
    let mut rows = Vec::new();
    for name in names {
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
    let identity = device_name(place);
    DeviceTable {
        place,
        name: identity.as_ref().map(|identity| identity.name.clone()),
        uuid: identity.and_then(|identity| identity.uuid),
        rows,
        whole: whole_device(place, before, after),
    }
}

/// The whole device's change, taken apart. A rest that another process may have made is not told.
fn whole_device(place: Place, before: &Reading, after: &Reading) -> Option<WholeDevice> {
    let told = judge::reconcile(place, before, after, || memory::resident_threads(place))?;
    if told.unexplained != 0 && neighbours::use_cuda() {
        return None;
    }
    let hint = |more: i64, noun, what: &str| {
        let more = u64::try_from(more).unwrap_or(0);
        (more != 0).then(|| format!("{} {what}", units::quantity(more, noun)))
    };
    let hints = [
        hint(told.contexts, "context", "more on this device"),
        hint(told.code, "module", "more loaded"),
    ];
    Some(WholeDevice {
        baseline: told.baseline,
        after: told.after,
        parts: told.parts,
        unexplained: told.unexplained,
        hints: hints.into_iter().flatten().collect(),
    })
}
