//! The resources that the runs of a check left behind, by call site and by run.
//!
//! Records are compared by identity, never by sum. A record belongs to the run in which it was
//! created. A run *left* a record if it is live at the end of that run. The record is *kept* if it
//! is still live after the last run. A resource that was left but not kept was freed by a later
//! run.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::group::{Class, Group, GroupKey};
use super::input::{CheckInput, LiveRecord, Ownership, RunInput};
use super::names::NameTable;
use crate::call_site::allocators::Allocator;
use crate::ledger::event::{ContextEnd, ThreadNumber};
use crate::ledger::{Anomaly, Kind, Layer, Record, StackId};
use crate::report::{AllowedBy, Frame, Owner};
use crate::units::total;

/// The resources that the runs of a check left, separated by whether they are allowed to stay.
#[derive(Debug, Default)]
pub(crate) struct Diff {
    /// The resources that are not allowed to stay.
    pub(crate) groups: Vec<Group>,
    /// The resources that are allowed to stay, and what allows them.
    pub(crate) allowed: Vec<(AllowedBy, Group)>,
    /// The resources that an interpreter freed only as it shut down.
    pub(crate) freed_by_shutdown: Vec<Group>,
    /// The known caching allocators without a probe through which the remaining records were
    /// allocated. The check cannot judge these records.
    pub(crate) missing_probes: Vec<&'static Allocator>,
}

/// Compares the resources live after each of the judged runs.
pub(crate) fn diff(input: &CheckInput) -> Diff {
    let runs = input.judged_runs();
    let is_cudas_own = |stack| input.names.is_cudas_own(stack);
    let mut sites = CallSites::default();
    let mut groups = Groups::new(runs);
    let mut allowed: BTreeMap<&AllowedBy, Groups<'_>> = BTreeMap::new();
    let mut freed_by_shutdown = Groups::new(runs);
    let mut missing_probes = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        let bound = bound_memory(run);
        let is_bound_to = |record: &Record| bound.contains(&record.sequence);
        let is_own =
            |live: &&LiveRecord| is_own(live, run, is_cudas_own) && !is_bound_to(&live.record);
        let mut live: Vec<_> = run.live.iter().filter(is_own).collect();
        live.sort_unstable_by_key(|live| live.record.sequence);
        for live in live {
            let record = &live.record;
            let class = Class::of(record);
            let foreign = match &live.owner {
                Ownership::HandedOver | Ownership::Another => continue,
                // For memory that may stay, it makes no difference whether an allocator still uses
                // it.
                Ownership::Allowed(by) => {
                    let groups = allowed.entry(by).or_insert_with(|| Groups::new(runs));
                    groups.add(at, sites.key(&input.names, class, record), record, None);
                    continue;
                }
                Ownership::Session => None,
                // A later run sees what threads outside the check created during an earlier one. If
                // the earlier run was not alone, these threads may belong to other tests.
                Ownership::Foreign(_)
                    if runs[creating_run(runs, record)]
                        .others
                        .may_have_moved_sums() =>
                {
                    continue;
                }
                Ownership::Foreign(thread) => Some(*thread),
            };
            match held_unseen(&class, record, run, input) {
                None => groups.add(at, sites.key(&input.names, class, record), record, foreign),
                // If a probe does not report the segments of its allocator, the allocator is judged
                // by its reserve.
                Some(allocator) => {
                    let has_probe = run.probed.iter().any(|name| name == allocator.name);
                    if !has_probe && !missing_probes.contains(&allocator) {
                        missing_probes.push(allocator);
                    }
                }
            }
        }
        let own = |record: &&Record| !is_the_runtimes_code(record, is_cudas_own);
        for record in run.freed_by_shutdown.iter().filter(own) {
            let key = sites.key(&input.names, Class::of(record), record);
            freed_by_shutdown.add(at, key, record, None);
        }
        let mut ended: Vec<(&Record, ContextEnd, StackId)> = (run.anomalies.iter())
            .filter_map(|anomaly| match anomaly {
                Anomaly::EndedWithContext {
                    record,
                    cause,
                    caller,
                } => Some((record, *cause, caller.stack)),
                _ => None,
            })
            .collect();
        ended.sort_unstable_by_key(|(record, ..)| record.sequence);
        for (record, cause, ended_by) in ended {
            if run.segments.owner(record, &run.holdings).is_some()
                || is_bound_to(record)
                || is_the_runtimes_code(record, is_cudas_own)
            {
                continue;
            }
            let class = Class {
                ended: Some(cause),
                ..Class::of(record)
            };
            groups.add_ended(at, sites.key(&input.names, class, record), record, ended_by);
        }
    }
    let live: Vec<_> = runs.iter().map(live_by_stack).collect();
    Diff {
        groups: groups.finish(&input.names, &live),
        allowed: allowed
            .into_iter()
            .flat_map(|(by, groups)| {
                let groups = groups.finish(&input.names, &live).into_iter();
                groups.map(|group| (by.clone(), group))
            })
            .collect(),
        freed_by_shutdown: freed_by_shutdown.finish(&input.names, &live),
        missing_probes,
    }
}

/// Returns how many resources each backtrace created in a run that are live at its end, no matter
/// who owns them.
fn live_by_stack(run: &RunInput) -> FxHashMap<StackId, u64> {
    let mut live = FxHashMap::default();
    for LiveRecord { record, .. } in &run.live {
        if record.sequence >= run.began {
            *live.entry(record.made.caller.stack).or_default() += 1;
        }
    }
    live
}

/// Whether a record is judged individually. A record that a probed allocator claims is judged as
/// part of that allocator's reserve. Code that CUDA's libraries loaded on first use stays loaded
/// until the process ends.
pub(super) fn is_own(
    live: &LiveRecord,
    run: &RunInput,
    is_cudas_own: impl Fn(StackId) -> bool,
) -> bool {
    run.segments.owner(&live.record, &run.holdings).is_none()
        && !is_the_runtimes_code(&live.record, is_cudas_own)
}

/// Whether this is code that one of CUDA's own libraries loaded for itself.
pub(crate) fn is_the_runtimes_code(
    record: &Record,
    is_cudas_own: impl Fn(StackId) -> bool,
) -> bool {
    matches!(record.made.kind, Kind::Module | Kind::Library)
        && is_cudas_own(record.made.caller.stack)
}

/// Returns the position of the run that created `record`.
fn creating_run(runs: &[RunInput], record: &Record) -> usize {
    let began = runs.iter().rposition(|run| run.began <= record.sequence);
    began.unwrap_or(0)
}

/// Returns the caching allocator of which a record is a segment, if no probe reports the segments
/// of this allocator. Such a record is not judged individually. If a probe does report segments,
/// this record is not among them: the allocator has lost track of this memory, so the record is
/// judged.
fn held_unseen(
    class: &Class,
    record: &Record,
    run: &RunInput,
    input: &CheckInput,
) -> Option<&'static Allocator> {
    // On Vulkan, a segment is a buffer.
    let has_bytes = !class.kind.is_handle() || record.is_bound();
    if class.layer != Layer::DRIVER || !has_bytes || input.facts.whole_program {
        return None;
    }
    let allocator = input.names.allocator(record.made.caller.stack)?;
    let layer = Layer::allocator(allocator.name);
    (!run.segments.has_any_of(layer, class.place)).then_some(allocator)
}

#[derive(Debug)]
struct Groups<'a> {
    runs: &'a [RunInput],
    by_key: FxHashMap<GroupKey, Group>,
    /// The sequence numbers of the records so far. A record that several runs left is counted once.
    seen: FxHashSet<u64>,
}

impl<'a> Groups<'a> {
    fn new(runs: &'a [RunInput]) -> Self {
        Self {
            runs,
            by_key: FxHashMap::default(),
            seen: FxHashSet::default(),
        }
    }

    /// Adds `record`, which is live at the end of run `at`.
    fn add(&mut self, at: usize, key: GroupKey, record: &Record, foreign: Option<ThreadNumber>) {
        let created = creating_run(self.runs, record);
        let is_last = at + 1 == self.runs.len();
        let is_new = self.seen.insert(record.sequence);
        let group = self.group(key);
        group.level[at].add(record.made.bytes);
        group.foreign_thread = group.foreign_thread.or(foreign);
        group.stacks.insert(record.made.caller.stack);
        group.threads.insert(record.made.caller.thread);
        if is_new {
            group.left[created].add(record.sequence, record.made.bytes);
        }
        if is_last {
            group.kept[created].add(record.sequence, record.made.bytes);
        }
    }

    /// Adds `record`, which ended with its context in run `at` and can no longer be freed. The call
    /// that ended the context had the backtrace `ended_by`.
    fn add_ended(&mut self, at: usize, key: GroupKey, record: &Record, ended_by: StackId) {
        let runs = self.runs.len();
        let group = self.group(key);
        group.left[at].add(record.sequence, record.made.bytes);
        group.kept[at].add(record.sequence, record.made.bytes);
        for level in &mut group.level[at..runs] {
            level.add(record.made.bytes);
        }
        group.stacks.insert(record.made.caller.stack);
        group.ended_by.get_or_insert(ended_by);
    }

    fn group(&mut self, key: GroupKey) -> &mut Group {
        let runs = self.runs.len();
        let group = self.by_key.entry(key);
        group.or_insert_with(|| Group::new(key, runs))
    }

    fn finish(self, names: &NameTable, live: &[FxHashMap<StackId, u64>]) -> Vec<Group> {
        let mut groups: Vec<Group> = self.by_key.into_values().collect();
        groups.sort_unstable_by_key(|group| group.key);
        for group in &mut groups {
            if group.first_run().is_none() {
                continue;
            }
            for (at, run) in self.runs.iter().enumerate() {
                let counted = group.stacks.iter();
                let counted = total(counted.filter_map(|it| run.allocations.get(it).copied()));
                group.allocated[at] = counted.max(group.left[at].amount.count);
                let live = group.stacks.iter().filter_map(|it| live[at].get(it));
                group.live[at] = live.sum();
            }
            group.line = names.site(group.key.stack, group.key.class.kind).line();
        }
        groups
    }
}

/// The call sites seen so far, each with the backtrace that represents it.
///
/// Backtraces that differ only inside CUDA's libraries are the same call site, because a library
/// may make several allocations for one call, and its first call takes a different path from later
/// ones. The same holds for backtraces that differ only in the column of an outer call, because a
/// report would show no difference between them.
///
/// Resources that different libraries create have different call sites, even if the same function
/// without line information called both libraries. Memory that a library is known to keep must not
/// hide its caller's own allocations.
#[derive(Debug, Default)]
struct CallSites {
    by_frames: FxHashMap<(Option<String>, Vec<Frame>), StackId>,
    by_stack: FxHashMap<StackId, StackId>,
}

impl CallSites {
    fn key(&mut self, names: &NameTable, class: Class, record: &Record) -> GroupKey {
        let own = record.made.caller.stack;
        let stack = *self.by_stack.entry(own).or_insert_with(|| {
            let site = library_and_frames(names, own, class.kind);
            *self.by_frames.entry(site).or_insert(own)
        });
        GroupKey { class, stack }
    }
}

fn library_and_frames(
    names: &NameTable,
    stack: StackId,
    kind: Kind,
) -> (Option<String>, Vec<Frame>) {
    let site = names.site(stack, kind);
    let mut frames = site.frames;
    for (at, frame) in frames.iter_mut().enumerate() {
        if Some(at) != site.user {
            frame.column = None;
        }
    }
    frames.retain(|frame| frame.owner != Owner::Cuda);
    (site.library.map(|library| library.name), frames)
}

/// Returns the sequence numbers of the memory to which objects are bound. Only objects that are
/// still live at the end of the run, or were destroyed together with their device, are considered.
///
/// Such an object is judged with the size that it needs, and the memory is not judged separately:
/// an allocator may have put many objects into one allocation. Memory to which nothing is bound is
/// judged separately.
fn bound_memory(run: &RunInput) -> FxHashSet<u64> {
    let live = run.live.iter().map(|live| &live.record);
    let ended = run.anomalies.iter().filter_map(Anomaly::ended);
    let bound = live.chain(ended).filter(|record| record.is_bound());
    bound.map(|it| it.made.pool).collect()
}

#[cfg(test)]
mod tests {
    use super::{CallSites, Class, diff};
    use crate::judge::{CheckInput, NameTable, RunInput};
    use crate::ledger::event::{Caller, ContextEnd, ContextUid, Creation, Key, Space};
    use crate::ledger::{Anomaly, Kind, Layer, Place, Record, StackId};
    use crate::report::{Frame, Owner};

    /// Returns the frames of a function without line information and of the functions that it
    /// called, the innermost first.
    fn called_by_set_up(inner: &[(&str, &str)]) -> Vec<Frame> {
        let frame = |(module, function): (&str, &str), owner| Frame {
            module: Some(module.into()),
            function: Some(function.into()),
            owner,
            ..Frame::default()
        };
        let inner = inner.iter().map(|it| frame(*it, Owner::Cuda));
        inner
            .chain([frame(("simulate", "set_up"), Owner::Native)])
            .collect()
    }

    #[test]
    fn a_library_and_its_caller_are_two_call_sites_even_without_lines() {
        const DRIVER: (&str, &str) = ("libcuda.so.1", "cuMemAlloc_v2");
        let stacks = [
            called_by_set_up(&[DRIVER, ("libcublas.so.13", "cublasCreate_v2")]),
            called_by_set_up(&[DRIVER, ("libcudart.so.13", "cudaMalloc")]),
            called_by_set_up(&[DRIVER, ("libcufft.so.12", "cufftPlan1d")]),
            // This is the same library, which reaches the driver through a different call path.
            called_by_set_up(&[
                DRIVER,
                ("libcublasLt.so.13", "cublasLtCreate"),
                ("libcublas.so.13", "cublasCreate_v2"),
            ]),
        ];
        let mut names = NameTable::default();
        for (at, frames) in (1..).zip(stacks) {
            names.frames.insert(StackId(at), frames);
        }
        let mut sites = CallSites::default();
        let represented = [1, 2, 3, 4].map(|at| {
            let mut record = record(at.into());
            record.made.caller.stack = StackId(at);
            sites.key(&names, Class::of(&record), &record).stack.0
        });
        assert_eq!(represented, [1, 2, 3, 1]);
    }

    fn record(sequence: u64) -> Record {
        let made = Creation {
            key: Key::new(Space::DevicePointer, 4096 * sequence),
            kind: Kind::Linear,
            layer: Layer::DRIVER,
            place: Place::cuda(0),
            bytes: 16,
            context: ContextUid(0),
            stream: 0,
            pool: 0,
            caller: Caller::default(),
        };
        Record { sequence, made }
    }

    fn ended(sequence: u64) -> Anomaly {
        Anomaly::EndedWithContext {
            record: record(sequence),
            cause: ContextEnd::Destroyed,
            caller: Caller::default(),
        }
    }

    /// The order matters, because a report names the first and the last of the calls that created
    /// the records.
    #[test]
    fn records_that_ended_with_a_context_are_in_order_of_creation() {
        let run = RunInput {
            anomalies: [3, 1, 2].map(ended).into(),
            ..RunInput::default()
        };
        let input = CheckInput {
            runs: vec![run],
            ..CheckInput::default()
        };
        let groups = diff(&input).groups;
        assert_eq!(groups.len(), 1);
        let is_ended = |class: &Class| class.ended == Some(ContextEnd::Destroyed);
        assert!(is_ended(&groups[0].key.class));
        assert_eq!(groups[0].left[0].records, [1, 2, 3]);
        assert_eq!(groups[0].kept[0].records, [1, 2, 3]);
    }
}
