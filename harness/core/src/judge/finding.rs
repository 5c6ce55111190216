//! A finding together with the records that it is about, and the order of the findings of a check.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::broken_context;
use super::group::{Group, Tally};
use super::input::{CheckInput, RunInput};
use super::names::NameTable;
use crate::ledger::event::ContextEnd;
use crate::ledger::{Amount, Holding, Kind, Layer, Place};
use crate::report::{Confirmation, Ended, Finding, FindingKind, Site, When};
use crate::units::quantity;

/// A finding, and the sequence numbers of its records. A finding about a sum has none.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) finding: Finding,
    pub(crate) records: Vec<u64>,
    /// The number of bytes that each run is charged with. Tolerances apply to these numbers. A
    /// single number applies to every run.
    pub(crate) charged: Vec<u64>,
    /// For a failed free of addresses that were not live: where the resources that it was probably
    /// supposed to free were created.
    pub(crate) meant: Vec<Site>,
    /// Whether the finding includes other leaked objects, which no tolerance covers.
    pub(crate) includes_others: bool,
}

impl Found {
    /// Creates a finding about a sum, without records.
    pub(crate) fn sum(finding: Finding) -> Self {
        Self {
            charged: vec![finding.bytes],
            finding,
            records: Vec::new(),
            meant: Vec::new(),
            includes_others: false,
        }
    }

    /// Returns the number of bytes that this run is charged with.
    pub(crate) fn charged_in(&self, run: usize) -> u64 {
        let charged = self.charged.get(run).or(self.charged.first());
        charged.copied().unwrap_or(0)
    }
}

/// Creates the finding for `tally`, the part of `group` that was allocated in the run at index
/// `run`.
pub(crate) fn of_group(
    kind: FindingKind,
    group: &Group,
    tally: &Tally,
    run: usize,
    input: &CheckInput,
) -> Found {
    let class = group.key.class;
    let names = &input.names;
    let site = names.site(group.key.stack, class.kind);
    let mut notes = Vec::new();
    notes.extend(labels(tally, names));
    notes.extend(what_holds(tally, input));
    notes.extend(running_thread(group, run, input));
    let left = group.left[run].amount.count.max(group.live[run]);
    let allocated = group.allocated[run].max(tally.amount.count);
    let finding = Finding {
        resource: Some(class.kind),
        count: tally.amount.count,
        bytes: tally.amount.bytes,
        each: tally.each,
        sizes: tally.few_sizes(),
        allocated,
        freed: allocated.saturating_sub(left.max(tally.amount.count)),
        when: when(&input.runs[run], &tally.records),
        foreign_thread: group.foreign_thread.map(|thread| names.thread(thread)),
        ended: class.ended.map(|cause| ending(cause, group, input)),
        notes,
        ..Finding::new(kind, class.layer, class.place, site)
    };
    Found {
        records: tally.records.clone(),
        ..Found::sum(finding)
    }
}

/// The largest number of object names that a finding shows.
const MOST_LABELS: usize = 3;

/// Returns the names of the objects in `tally`, each listed once.
fn labels(tally: &Tally, names: &NameTable) -> Option<String> {
    let known = tally
        .records
        .iter()
        .filter_map(|record| names.labels.get(record));
    let known: BTreeSet<&String> = known.collect();
    let shown = known.iter().take(MOST_LABELS);
    let shown: Vec<_> = shown.map(|label| format!("{label:?}")).collect();
    let more = match known.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {}", quantity(more as u64, "other name")),
    };
    (!shown.is_empty()).then(|| format!("named {}{more}", shown.join(", ")))
}

/// Returns a note that says whether a handle to this physical memory was not released or a range is
/// still mapped. The line that allocated the memory does not show which of the two happened.
/// Returns `None` for other memory.
fn what_holds(tally: &Tally, input: &CheckInput) -> Option<String> {
    let run = input.judged_runs().last()?;
    if run.holdings.is_empty() {
        return None;
    }
    let of_tally = |sequence: &u64| tally.records.binary_search(sequence).is_ok();
    let records = run.live.iter().map(|live| &live.record);
    let physical = records.filter(|record| record.made.kind == Kind::Physical);
    let physical = physical.filter(|record| of_tally(&record.sequence));
    let holdings = physical.filter_map(|record| run.holdings.get(&record.key()));
    sentence(&holdings.collect::<Vec<_>>())
}

fn sentence(holdings: &[&Holding]) -> Option<String> {
    let count =
        |held: fn(&Holding) -> bool| holdings.iter().filter(|holding| held(holding)).count();
    let named = count(|holding| holding.references != 0);
    let mapped = count(|holding| holding.maps != 0);
    let parts = match holdings.len() {
        1 => [
            "its handle was not released (cuMemRelease)".to_owned(),
            "it is still mapped (cuMemUnmap)".to_owned(),
        ],
        _ => [
            format!("handles not released (cuMemRelease): {named}"),
            format!("still mapped (cuMemUnmap): {mapped}"),
        ],
    };
    let parts = parts.into_iter().zip([named, mapped]);
    let parts = parts.filter_map(|(part, count)| (count != 0).then_some(part));
    let parts: Vec<_> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns a note if a thread other than the test's own allocated the resource, and threads of the
/// test were still running at the end. Such a thread may belong to a pool that other tests also
/// use.
fn running_thread(group: &Group, run: usize, input: &CheckInput) -> Option<String> {
    let is_running = input.runs[run].threads_running != 0;
    let mut names = group
        .threads
        .iter()
        .map(|thread| input.names.thread(*thread));
    // The test's own thread has the test's name, which the system may truncate.
    let is_other = |name: &String| !input.subject.test.starts_with(name.trim_end_matches('…'));
    let other = names.find(is_other)?;
    is_running.then(|| {
        format!(
            "allocated on the thread {other}, and threads of the test were still running when the test \
             ended; if several tests share a thread pool, start the pool in a function with \
             #[gpu_leak_check::warmup]"
        )
    })
}

/// Returns how the context of a group ended, and where.
fn ending(cause: ContextEnd, group: &Group, input: &CheckInput) -> Ended {
    let how = match cause {
        ContextEnd::Destroyed => "freed only because its context was destroyed",
        ContextEnd::LastRelease => {
            "freed only because the last reference to the primary context was released"
        }
        ContextEnd::Reset => "freed only because the device was reset",
        ContextEnd::DeviceDestroyed => "not destroyed before its device was destroyed",
        ContextEnd::InstanceDestroyed => "not destroyed before its instance was destroyed",
    };
    let site = |stack| input.names.site(stack, group.key.class.kind);
    let site = group.ended_by.map(site);
    let site = site.filter(|site| site.user_frame().is_some());
    Ended {
        how: how.to_owned(),
        at: site.map(|site| site.shown(&input.subject.test)),
    }
}

/// Returns the positions of the first and the last call that created these records, among the calls
/// of the run that allocate or free.
fn when(run: &RunInput, records: &[u64]) -> Option<When> {
    let ordinal = |sequence| sequence - run.began + 1;
    let (first, last) = (*records.first()?, *records.last()?);
    (run.began <= first && last < run.ended).then(|| When {
        first: ordinal(first),
        last: ordinal(last),
        of: run.calls(),
    })
}

/// Creates a finding about a sum of `bytes`, which has no line.
pub(crate) fn of_sum(kind: FindingKind, layer: Layer, place: Place, bytes: u64) -> Finding {
    Finding {
        count: 1,
        bytes,
        each: Some(bytes),
        allocated: 1,
        ..Finding::new(kind, layer, place, Site::default())
    }
}

/// Whether something that happened in these runs repeats, which means that it happened in at least
/// two runs, including the last.
pub(crate) fn repeats(in_runs: &[bool]) -> bool {
    let times = in_runs.iter().filter(|it| **it).count();
    times >= 2 && in_runs.last() == Some(&true)
}

/// Returns the number of runs in which a finding repeated, and the amount that the last run left.
pub(crate) fn confirmation(in_runs: &[bool], last: Amount) -> Option<Confirmation> {
    let runs = in_runs.iter().filter(|it| **it).count();
    (in_runs.len() > 1).then_some(Confirmation::Repeated {
        runs: runs as u32,
        of: in_runs.len() as u32,
        count: last.count,
        bytes: last.bytes,
    })
}

/// Returns the location of a group's call site for a note.
pub(crate) fn location(names: &NameTable, group: &Group) -> String {
    names.site(group.key.stack, group.key.class.kind).location()
}

/// Sorts the findings of a check. What explains the others comes first, then what is most likely to
/// be the mistake.
///
/// The call that broke a context comes first, because it explains the rest. Then come failed frees
/// that were probably supposed to free resources of the same call site as a leak. The other
/// findings are sorted by kind, with the worst first. Within a kind, the findings of the program's
/// own code come before those of libraries, because the program is the more likely cause. After
/// that, the largest come first.
pub(super) fn sort(found: &mut [Found], input: &CheckInput) {
    let broken = broken_context::of(input).map(|broken| broken.error);
    let is_left = |it: &Finding| matches!(it.kind, FindingKind::Leaked | FindingKind::Grew);
    let left = found.iter().filter(|it| is_left(&it.finding));
    let left: Vec<Site> = left.map(|it| it.finding.site.clone()).collect();
    found.sort_by_key(|Found { finding, meant, .. }| {
        let failed = finding.failed.as_ref();
        let is_broken = failed.is_some_and(|failed| Some(failed.code) == broken);
        let explains_a_leak = meant.iter().any(|site| left.contains(site));
        let is_of_a_library = finding.site.library.is_some();
        let size = (Reverse(finding.bytes), Reverse(finding.count));
        (
            !is_broken,
            !explains_a_leak,
            finding.kind,
            is_of_a_library,
            size,
        )
    });
}
