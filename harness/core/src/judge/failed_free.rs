//! Free and destroy calls that returned an error. Each is reported, no matter which run made it.
//!
//! A record that is live only because its free failed is reported once, as the failed free. In a
//! broken context, every free fails from some point on. These failed frees are one finding, which
//! names the first call that failed and everything that could not be freed.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;

use super::broken_context::{self, BrokenContext};
use super::diff::{Diff, is_the_runtimes_code};
use super::finding::Found;
use super::group::{Class, Tally};
use super::input::{CheckInput, Freed, RunInput};
use super::names::NameTable;
use super::passages::passage;
use crate::ledger::event::{Key, Space};
use crate::ledger::{Amount, Anomaly, FailedCall, Kind, Layer, Place, Record, StackId};
use crate::report::{FailedFree, Finding, FindingKind, PassageKind, Site, verbs};
use crate::units::{quantity, total};

/// The largest number of call sites and offsets that a finding lists for frees of an address inside
/// a record.
const MOST_INSIDE: usize = 3;

/// Calls that failed to free resources, each with the index of its run. All calls were made at one
/// call site, and all resources were created at one call site. There is at least one call.
type Failed = Vec<(usize, FailedCall)>;

/// Returns the failed frees, and removes from `diff` the records that are live only because of
/// them.
pub(crate) fn findings(input: &CheckInput, diff: &mut Diff) -> Vec<Found> {
    let mut all: Vec<Failed> = Vec::new();
    let is_cudas_own = |stack| input.names.is_cudas_own(stack);
    for (at, run) in input.judged_runs().iter().enumerate() {
        let mut met = FxHashSet::default();
        for anomaly in &run.anomalies {
            let Anomaly::FailedFree(call) = anomaly else {
                continue;
            };
            let FailedCall { record, caller, .. } = call;
            // The runtime unloads a program's code when the program ends. A failure to do so is not
            // a defect in the program.
            if record.is_some_and(|it| is_the_runtimes_code(&it, is_cudas_own)) {
                continue;
            }
            // A call site that fails twice to free the same record is counted once.
            let is_new =
                record.is_none_or(|it| met.insert((it.sequence, caller.stack, call.error)));
            if is_new {
                match all.iter_mut().find(|known| is_same(&known[0].1, call)) {
                    Some(known) => known.push((at, *call)),
                    None => all.push(vec![(at, *call)]),
                }
            }
        }
    }
    let broken = broken_context::of(input);
    let is_broken = |failed: &Failed| {
        let error = failed[0].1.error;
        broken.as_ref().is_some_and(|broken| broken.error == error)
    };
    let (in_broken, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_broken);
    let mut found: Vec<_> = others
        .iter()
        .map(|failed| found_of(failed, input))
        .collect();
    // These records are live only because of a failed free, so they are not leaked.
    let records = found.iter().flat_map(|found| found.records.clone());
    let not_freed = records.collect();
    diff.groups
        .iter_mut()
        .for_each(|group| group.forget(&not_freed));
    diff.groups.retain(|group| group.first_run().is_some());
    if let Some(broken) = broken
        && !in_broken.is_empty()
    {
        found.push(in_broken_context(&in_broken, &broken, input, diff));
    }
    found
}

/// If an address inside a leaked resource was passed to a free, adds a note to the leak. For
/// allocators that report their blocks, this note is the only trace of the mistake: they have no
/// way to report that a free was rejected.
pub(crate) fn note_frees_inside(found: &mut [Found], input: &CheckInput) {
    let runs = input.judged_runs().iter().rev();
    let Some(run) = runs.into_iter().find(|run| !run.freed_inside.is_empty()) else {
        return;
    };
    for Found {
        finding, records, ..
    } in found
    {
        let mut frees: BTreeMap<(StackId, u64), u64> = BTreeMap::new();
        let mut meant = BTreeSet::new();
        let inside = run.freed_inside.iter();
        for free in inside.filter(|free| records.binary_search(&free.record).is_ok()) {
            *frees.entry((free.stack, free.offset)).or_default() += 1;
            meant.insert(free.record);
        }
        let mut passages = Vec::new();
        for ((stack, offset), count) in frees.into_iter().take(MOST_INSIDE) {
            let kind = finding.resource.unwrap_or(Kind::Block);
            let site = input.names.site(stack, kind).outside_wrapper();
            let line = site.user_frame();
            let line = line.and_then(|it| passage(PassageKind::FreesInside, it, 0));
            passages.extend(line.filter(|it| !passages.contains(it)));
            finding.notes.push(format!(
                "{} in {} passed an address {offset} bytes past the start of the allocation",
                quantity(count, "free"),
                site.shown(&input.subject.test)
            ));
        }
        // If an address inside every leaked resource was passed to a free, these frees are the
        // mistake, and other passages explain nothing.
        if meant.len() as u64 >= finding.count && !passages.is_empty() {
            finding.passages = passages;
        }
    }
}

/// Whether two calls failed in the same way at the same call site, for resources of the same class
/// that were created at the same call site.
fn is_same(one: &FailedCall, other: &FailedCall) -> bool {
    let source = |call: &FailedCall| {
        let record = call.record.as_ref();
        record.map(|it| (Class::of(it), it.made.caller.stack))
    };
    source(one) == source(other)
        && (one.caller.stack, one.error) == (other.caller.stack, other.error)
        && one.key.space == other.key.space
}

/// Returns the records that the calls of the first run should have freed. Only these are counted.
fn tally(failed: &Failed) -> Tally {
    let mut tally = Tally::default();
    for (_, call) in failed.iter().filter(|(run, _)| *run == failed[0].0) {
        match call.record {
            Some(record) => tally.add(record.sequence, record.made.bytes),
            None => tally.add(0, 0),
        }
    }
    tally
}

/// A free of an address that was not live.
struct Mistake {
    address: u64,
    /// The record that the call was probably supposed to free.
    meant: Option<Record>,
    /// What was wrong, as the predicate of a sentence about the address.
    what: String,
}

/// Returns the mistake that a free of this key made; `None` if it cannot be identified.
fn mistake(key: Key, run: &RunInput, names: &NameTable) -> Option<Mistake> {
    let address = key.value();
    let of = |record: &Record, what| Mistake {
        address,
        meant: Some(*record),
        what,
    };
    let site = |stack, kind| names.site(stack, kind).outside_wrapper();
    let about = |record: &Record| {
        let made = &record.made;
        let (created, _) = verbs(made.kind);
        let location = site(made.caller.stack, made.kind).location();
        format!("{}, {created} at {location}", described(record))
    };
    let freed = run.freed_before.iter();
    let mut same = freed.clone().filter(|freed| freed.record.key() == key);
    if let Some(Freed { record, stack }) = same.next_back() {
        let (_, freed) = verbs(record.made.kind);
        let site = site(*stack, record.made.kind);
        let at = match site.user_frame() {
            Some(_) => format!(", at {}", site.location()),
            None => String::new(),
        };
        let what = format!("was already {freed}{at}: {}", about(record));
        return Some(of(record, what));
    }
    let live = run.live.iter().map(|live| live.record);
    let mut all = live.clone().chain(freed.map(|freed| freed.record));
    if let Some(record) = all.find(|record| record.contains(key)) {
        let what = format!(
            "is not the start of an allocation: it lies {} bytes inside {}; free the address that \
             the allocation returned",
            address - record.key().value(),
            about(&record)
        );
        return Some(of(&record, what));
    }
    free_of(key.space)?;
    let mut live = live.filter(|record| record.key().value() == address);
    live.find_map(|record| {
        let call = free_of(record.key().space)?;
        let what = format!("is {}: call {call} instead", about(&record));
        Some(of(&record, what))
    })
}

/// Returns the mistakes made by calls whose addresses were not live. The addresses differ between
/// runs, so only the calls of one run are considered: the first run that can identify a mistake.
fn mistakes(failed: &Failed, input: &CheckInput) -> Vec<Mistake> {
    let keys = |at| {
        let calls = failed.iter().filter(move |(run, _)| *run == at);
        calls.map(|(_, call)| call.key)
    };
    let runs = input.judged_runs().iter().enumerate();
    let mut identified = runs.map(|(at, run)| -> Vec<_> {
        let mistakes = keys(at).map(|key| mistake(key, run, &input.names));
        mistakes.flatten().collect()
    });
    let identified = identified.find(|it| !it.is_empty());
    identified.unwrap_or_else(|| {
        let unknown = keys(failed[0].0).map(|key| Mistake {
            address: key.value(),
            meant: None,
            what: "was not live when it was freed".to_owned(),
        });
        unknown.collect()
    })
}

/// Returns a note for each different mistake, which names the first address with which it was made.
fn notes_about(mistakes: &[Mistake]) -> Vec<String> {
    let mut notes: Vec<(&Mistake, BTreeSet<u64>)> = Vec::new();
    for mistake in mistakes {
        match notes.iter_mut().find(|(it, _)| it.what == mistake.what) {
            Some((_, addresses)) => _ = addresses.insert(mistake.address),
            None => notes.push((mistake, BTreeSet::from([mistake.address]))),
        }
    }
    let notes = notes.into_iter().map(|(mistake, addresses)| {
        let others = match addresses.len() {
            1 => String::new(),
            several => format!(" (one of {several} such addresses)"),
        };
        format!("{:#x}{others} {}", mistake.address, mistake.what)
    });
    notes.collect()
}

/// Returns the name of the call that frees memory at an address of this space.
fn free_of(space: Space) -> Option<&'static str> {
    match space {
        Space::DevicePointer => Some("cuMemFree"),
        Space::HostPointer => Some("cuMemFreeHost"),
        Space::RegisteredPointer => Some("cuMemHostUnregister"),
        _ => None,
    }
}

/// Returns, for example, `4.00 KiB of linear memory` or `1 event`.
fn described(record: &Record) -> String {
    let made = &record.made;
    match made.kind.is_handle() {
        true => quantity(1, made.kind.noun()),
        false => made.kind.memory(made.bytes),
    }
}

fn found_of(failed: &Failed, input: &CheckInput) -> Found {
    let names = &input.names;
    let FailedCall {
        key,
        record,
        caller,
        error,
    } = failed[0].1;
    let tally = tally(failed);
    let made = record.map(|record| record.made);
    let mistakes = match record {
        Some(_) => Vec::new(),
        None => mistakes(failed, input),
    };
    let all_meant = || mistakes.iter().filter_map(|it| it.meant);
    let same = || all_meant().find(|it| it.key().space == key.space);
    let meant = record.or_else(same).map(|record| record.made);
    let kind = meant.map_or_else(|| kind_of(key.space), |made| Some(made.kind));
    let site = made.map_or_else(Site::default, |made| {
        names.site(made.caller.stack, made.kind)
    });
    let finding = Finding {
        resource: kind,
        count: tally.amount.count,
        bytes: tally.amount.bytes,
        each: tally.each.filter(|_| made.is_some()),
        allocated: tally.amount.count,
        failed: Some(FailedFree {
            error: names.error(error),
            code: error,
            site: names.site(caller.stack, kind.unwrap_or(Kind::Linear)),
        }),
        notes: notes_about(&mistakes),
        ..Finding::new(
            FindingKind::FailedFree,
            meant.map_or(Layer::DRIVER, |made| made.layer),
            meant.map_or(place_of(kind), |made| made.place),
            site,
        )
    };
    Found {
        charged: Vec::new(),
        meant: all_meant()
            .map(|it| names.site(it.made.caller.stack, it.made.kind))
            .collect(),
        records: failed
            .iter()
            .filter_map(|(_, call)| Some(call.record?.sequence))
            .collect(),
        ..Found::sum(finding)
    }
}

/// Returns the place of an unknown resource of this kind.
fn place_of(kind: Option<Kind>) -> Place {
    match kind {
        Some(Kind::Pinned | Kind::Registered) => Place::HOST,
        _ => Place::UNKNOWN,
    }
}

/// Returns the kind of an unknown resource, if the free call reveals it.
fn kind_of(space: Space) -> Option<Kind> {
    match space {
        Space::DevicePointer => Some(Kind::Linear),
        Space::HostPointer => Some(Kind::Pinned),
        Space::RegisteredPointer => Some(Kind::Registered),
        Space::PhysicalObject | Space::PhysicalHandle | Space::Mapping => Some(Kind::Physical),
        Space::IpcPointer => Some(Kind::Imported),
        Space::Handle(kind) | Space::Object { kind, .. } => Some(kind),
        Space::Observed(_) | Space::ObservedAt(..) => Some(Kind::Block),
    }
}

/// Combines the failed frees of a broken context into one finding. Nothing can be freed in such a
/// context, so resources that are live in it, or ended with it, are not separate findings.
fn in_broken_context(
    all: &[Failed],
    broken: &BrokenContext,
    input: &CheckInput,
    diff: &mut Diff,
) -> Found {
    let frees = total(all.iter().map(|failed| tally(failed).amount.count));
    let mut found = found_of(&all[0], input);
    let mut sum = Amount::default();
    let mut kinds = BTreeSet::new();
    for mut group in std::mem::take(&mut diff.groups) {
        let class = group.key.class;
        let part = |kept: Tally| match class.ended {
            _ if !broken.is_at(class.place) => Tally::default(),
            None => kept,
            Some(_) => kept.filtered(|sequence| broken.ended.contains(&sequence)),
        };
        // As with the calls, only what the first run could not free is counted.
        let mut of_runs = group.kept.iter().map(|kept| part(kept.clone()).amount);
        let first = of_runs.find(|amount| !amount.is_zero());
        let part = part(group.kept_in_all());
        if !part.amount.is_zero() {
            kinds.insert(class.kind);
            sum = sum.plus(first.unwrap_or_default());
            group.forget(&part.records.iter().copied().collect());
            found.records.extend(part.records);
        }
        if group.first_run().is_some() {
            diff.groups.push(group);
        }
    }
    // The record of a failed free is also among the records of the groups.
    found.records.sort_unstable();
    found.records.dedup();
    let finding = &mut found.finding;
    // The record of a failed free is also live, so the finding counts live resources, not calls.
    (finding.count, finding.bytes) = (sum.count.max(1), sum.bytes);
    finding.each = None;
    if kinds.len() > 1 {
        finding.resource = None;
    }
    if let Some((caller, kind)) = broken.first
        && let Some(failed) = &mut finding.failed
    {
        let kind = kind.or(finding.resource).unwrap_or(Kind::Linear);
        failed.site = input.names.site(caller.stack, kind);
    }
    finding.notes.push(format!(
        "the context is broken: a kernel or a copy failed, so every later call in the context \
         fails; this is the first such call that was intercepted, and {} failed in all. First \
         find the kernel or copy that failed",
        quantity(frees, "free")
    ));
    found
}
