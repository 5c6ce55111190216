//! Free and destroy calls that returned an error: each is reported, in whichever run it was.
//!
//! A record that is live only because its free failed is reported once, as the failed free. In a
//! broken context every free fails from some moment on: that is one finding, with everything that
//! could not be freed.

use rustc_hash::FxHashSet;

use super::diff::{Class, Diff};
use super::finding::Found;
use super::input::{CheckInput, NameTable, RunInput};
use super::usage::Amount;
use crate::ledger::event::{Caller, CuResult, Key, Space};
use crate::ledger::{Anomaly, Kind, Layer, Place, Record};
use crate::report::model::{FailedRelease, Finding, FindingKind, Site};
use crate::units::quantity;

/// Calls that failed at one line to free what was allocated at one line.
#[derive(Debug)]
struct Failed {
    record: Option<Record>,
    key: Key,
    caller: Caller,
    error: CuResult,
    amount: Amount,
    each: Option<u64>,
    records: Vec<u64>,
    notes: Vec<String>,
}

/// The frees that failed; what only their failure keeps live is taken out of `diff`.
pub(crate) fn findings(input: &CheckInput, diff: &mut Diff) -> Vec<Found> {
    let mut all: Vec<Failed> = Vec::new();
    let mut not_freed = FxHashSet::default();
    for run in input.judged_runs() {
        let mut met = FxHashSet::default();
        for anomaly in &run.anomalies {
            let Anomaly::FailedRelease {
                key,
                record,
                caller,
                error,
            } = anomaly
            else {
                continue;
            };
            // A call site that fails to free the same record twice has failed to free one.
            let is_new = record.is_none_or(|it| met.insert((it.sequence, caller.stack, *error)));
            if is_new {
                not_freed.extend(record.map(|record| record.sequence));
                add(&mut all, *key, *record, *caller, *error, run, &input.names);
            }
        }
    }
    if all.is_empty() {
        return Vec::new();
    }
    if input.broken_context().is_some() {
        return vec![in_broken_context(all, input, diff)];
    }
    take_out(diff, &not_freed);
    all.into_iter().map(|failed| found(failed, &input.names)).collect()
}

fn add(
    all: &mut Vec<Failed>,
    key: Key,
    record: Option<Record>,
    caller: Caller,
    error: CuResult,
    run: &RunInput,
    names: &NameTable,
) {
    let class = record.as_ref().map(Class::of);
    let is_same = |known: &&mut Failed| {
        let stacks = |record: &Option<Record>| record.map(|it| it.made.caller.stack);
        known.record.as_ref().map(Class::of) == class
            && stacks(&known.record) == stacks(&record)
            && (known.caller.stack, known.error) == (caller.stack, error)
            && known.key.space == key.space
    };
    let bytes = record.map_or(0, |record| record.made.bytes);
    let note = record.is_none().then(|| what_was_freed(key, run, names));
    match all.iter_mut().find(is_same) {
        Some(known) => {
            known.each = known.each.filter(|each| *each == bytes);
            known.amount.add(bytes);
            known.records.extend(record.map(|it| it.sequence));
            known.notes.extend(note.filter(|note| !known.notes.contains(note)));
        }
        None => all.push(Failed {
            record,
            key,
            caller,
            error,
            amount: Amount { count: 1, bytes },
            each: Some(bytes),
            records: record.map(|it| it.sequence).into_iter().collect(),
            notes: note.into_iter().collect(),
        }),
    }
}

/// What a call named that was not live: it was freed before, it lies in what is live, or nobody knows
/// it.
fn what_was_freed(key: Key, run: &RunInput, names: &NameTable) -> String {
    let address = key.value;
    if let Some(freed) = run.freed_before.iter().find(|freed| freed.made.key == key) {
        let made = &freed.made;
        return format!(
            "{address:#x} was freed before: {} allocated at {}",
            described(freed),
            names.site(made.caller.stack, made.kind).location()
        );
    }
    let around = run.live.iter().map(|live| &live.record).find(|record| {
        let made = &record.made;
        let start = made.key.value;
        !made.kind.is_handle()
            && made.key.space == key.space
            && (start..start.saturating_add(made.bytes)).contains(&address)
    });
    match around {
        Some(record) => format!(
            "{address:#x} is not the start of an allocation: it lies {} bytes inside {} allocated at {}; \
             free the address that the allocation returned",
            address - record.made.key.value,
            described(record),
            names.site(record.made.caller.stack, record.made.kind).location()
        ),
        None => format!("{address:#x} was not live when it was freed"),
    }
}

/// `4,096 bytes of linear memory`, `an event`
fn described(record: &Record) -> String {
    let made = &record.made;
    match made.kind.is_handle() {
        true => quantity(1, crate::units::noun(made.kind)),
        false => format!("{} of {} memory", crate::units::exact_size(made.bytes), made.kind.name()),
    }
}

fn found(failed: Failed, names: &NameTable) -> Found {
    let made = failed.record.map(|record| record.made);
    let kind = made.map_or_else(|| kind_of(failed.key.space), |made| Some(made.kind));
    let site = made.map_or_else(Site::default, |made| names.site(made.caller.stack, made.kind));
    let finding = Finding {
        resource: kind,
        count: failed.amount.count,
        bytes: failed.amount.bytes,
        each: failed.each.filter(|_| made.is_some()),
        taken: failed.amount.count,
        failed: Some(FailedRelease {
            error: names.error(failed.error),
            code: failed.error,
            site: names.site(failed.caller.stack, kind.unwrap_or(Kind::Linear)),
        }),
        notes: failed.notes,
        ..Finding::new(
            FindingKind::FailedFree,
            made.map_or(Layer::DRIVER, |made| made.layer),
            made.map_or(Place::UNKNOWN, |made| made.place),
            site,
        )
    };
    Found {
        most_bytes: 0,
        records: failed.records,
        finding,
    }
}

/// What a call frees that names something unknown, as far as the call tells.
fn kind_of(space: Space) -> Option<Kind> {
    match space {
        Space::DevicePointer => Some(Kind::Linear),
        Space::HostPointer => Some(Kind::Pinned),
        Space::RegisteredPointer => Some(Kind::Registered),
        Space::PhysicalObject | Space::PhysicalHandle | Space::Mapping => Some(Kind::Physical),
        Space::IpcPointer => Some(Kind::Imported),
        Space::Handle(kind) => Some(kind),
        Space::Observed(_) | Space::ObservedAt(..) => Some(Kind::Block),
    }
}

/// What is live in a context where nothing can be freed is no news of its own.
fn in_broken_context(all: Vec<Failed>, input: &CheckInput, diff: &mut Diff) -> Found {
    let mut failed = all.into_iter();
    let first = failed.next().expect("asked only where a free failed");
    let mut found = found(first, &input.names);
    let mut sum = Amount::default();
    for group in std::mem::take(&mut diff.groups) {
        if group.key.class.ended.is_some() {
            diff.groups.push(group);
            continue;
        }
        let kept = group.kept_in_all();
        sum = sum.plus(kept.amount);
        found.records.extend(kept.records);
    }
    // The record of a failed free is live as well: what is live counts, not the calls.
    (found.finding.count, found.finding.bytes) = (sum.count.max(1), sum.bytes);
    found.finding.each = None;
    found.finding.notes.push(
        "the context is broken: every call in it fails since a kernel or a copy did. Look for that \
         one first"
            .to_owned(),
    );
    found
}

/// Takes the records of failed frees out of what is left.
fn take_out(diff: &mut Diff, not_freed: &FxHashSet<u64>) {
    for group in &mut diff.groups {
        group.forget(not_freed);
    }
    diff.groups.retain(|group| group.first_run().is_some());
}
