//! Collects the names that a judgement may use: the name and location of the check, and the names
//! of call sites, devices, threads and errors.

use std::panic::Location;
use std::sync::Arc;
use std::thread;

use super::blind::culprit;
use super::scopes::open::current;
use super::scopes::tree;
use super::several_calls;
use crate::api::vulkan;
use crate::capture::thread::thread_name;
use crate::case::Case;
use crate::device::contexts::device_name;
use crate::device::driver::error_name;
use crate::device::memory;
use crate::judge::{NameTable, Ownership, RunInput, Subject, places};
use crate::ledger::event::{CuResult, ThreadNumber};
use crate::ledger::{self, Anomaly, FailedCall, Place, Record, StackId};
use crate::report::{again, symbols};
use crate::{observe, registry};

/// Adds the names that may be needed for `run`. Only the backtraces of leaked resources are
/// resolved, because reading debug information is the slow part of a report.
pub(crate) fn add(names: &mut NameTable, run: &RunInput) {
    for live in &run.live {
        let record = &live.record;
        if run.segments.owner(record, &run.holdings).is_none() {
            add_stack(names, record.made.caller.stack);
        }
        add_label(names, record);
        if run.threads_running != 0 || matches!(live.owner, Ownership::Foreign(_)) {
            add_thread(names, record.made.caller.thread);
        }
    }
    for anomaly in &run.anomalies {
        match anomaly {
            Anomaly::FailedFree(FailedCall { error, .. })
            | Anomaly::FailedCreation { error, .. } => add_error(names, *error),
            Anomaly::EndedWithContext { record, .. } | Anomaly::Overwritten { record, .. } => {
                add_label(names, record);
            }
        }
    }
    stacks(run).for_each(|stack| add_stack(names, stack));
    several_calls::mark(names, ledger::live().stacks(), &observe::own_sources());
    let broken = run.broken_before.or(run.broken_inside);
    if let Some(broken) = broken {
        add_error(names, broken.error);
        names.broken_by = culprit();
    }
    for place in places(&run.baseline, &run.end) {
        add_device(names, place, run);
    }
}

/// Returns the backtraces to which a judgement may refer, except those of live records.
fn stacks(run: &RunInput) -> impl Iterator<Item = StackId> {
    let of_record = |record: &Record| record.made.caller.stack;
    let of_anomaly = move |anomaly: &Anomaly| match anomaly {
        Anomaly::FailedFree(failed) => [
            Some(failed.caller.stack),
            failed.record.as_ref().map(of_record),
        ],
        Anomaly::FailedCreation { caller, .. } => [Some(caller.stack), None],
        Anomaly::EndedWithContext { record, caller, .. } => {
            [Some(caller.stack), Some(of_record(record))]
        }
        Anomaly::Overwritten { record, .. } => [Some(of_record(record)), None],
    };
    let freed_before = run.freed_before.iter();
    let peaks = run.peaks.iter().filter(|reading| reading.made != 0);
    let over = &run.over_budget;
    let sites = (over.iter().flat_map(|over| &over.sites))
        .chain(peaks.clone().flat_map(|reading| &reading.at_peak))
        .chain(run.graphs.iter().flat_map(|graph| &graph.sites));
    let in_turn = (over.iter().flat_map(|over| &over.in_turn))
        .chain(peaks.clone().flat_map(|reading| &reading.in_turn));
    let lifetimes = peaks.flat_map(|reading| &reading.lifetimes);
    (run.freed_by_shutdown.iter().map(of_record))
        .chain(freed_before.flat_map(move |freed| [of_record(&freed.record), freed.stack]))
        .chain(run.freed_inside.iter().map(|free| free.stack))
        .chain(
            run.freed_of_run
                .iter()
                .flat_map(|freed| [freed.allocated, freed.freed]),
        )
        .chain(run.anomalies.iter().flat_map(of_anomaly).flatten())
        .chain(sites.map(|site| site.stack))
        .chain(in_turn.map(|it| it.stack))
        .chain(lifetimes.map(|life| life.stack))
}

fn add_stack(names: &mut NameTable, stack: StackId) {
    names
        .frames
        .entry(stack)
        .or_insert_with(|| symbols::frames(stack, &observe::own_sources()));
}

fn add_label(names: &mut NameTable, record: &Record) {
    if let Some(label) = vulkan::label_of(record.made.key) {
        names.labels.insert(record.sequence, label);
    }
}

fn add_thread(names: &mut NameTable, thread: ThreadNumber) {
    let name = || thread_name(thread);
    names.threads.entry(thread).or_insert_with(name);
}

fn add_error(names: &mut NameTable, error: CuResult) {
    let name = || vulkan::result_name(error).unwrap_or_else(|| error_name(error));
    names.errors.entry(error).or_insert_with(name);
}

fn add_device(names: &mut NameTable, place: Place, run: &RunInput) {
    if !names.devices.contains_key(&place)
        && let Some(name) = device_name(place).or_else(|| vulkan::device_name(place))
    {
        names.devices.insert(place, name);
    }
    // The other processes are queried only if the whole-device figures differ.
    if let (Some(was), Some(is)) = (run.baseline.whole(place), run.end.whole(place))
        && was.used != is.used
    {
        names.neighbours.extend(memory::processes_that_use_cuda());
        if was.limits.stack != is.limits.stack {
            let threads = || memory::resident_threads(place);
            names.resident_threads.entry(place).or_insert_with(threads);
        }
    }
}

/// Returns the subject of an annotated test.
pub(crate) fn subject_of(case: &Case) -> Subject {
    Subject {
        test: case.name().to_owned(),
        file: case.origin.file.to_owned(),
        line: case.origin.line,
        column: case.origin.column,
        again: again::command(case),
    }
}

/// Returns the subject of a block called `name` at this location. If the block is inside a check or
/// an annotated test, its name begins with the name of that check or test (`optim::trains: step`),
/// and it can be run alone with the command of that check or test.
pub(crate) fn subject_at(name: &str, at: &Location<'_>) -> Subject {
    let around = current().map_or_else(unchecked_test, tree::check_around);
    Subject {
        test: around.as_ref().map_or_else(
            || name.to_owned(),
            |check| format!("{}: {name}", check.test),
        ),
        file: at.file().to_owned(),
        line: at.line(),
        column: at.column(),
        again: around.and_then(|check| check.again.clone()),
    }
}

/// Returns the subject of the annotated test whose body runs on this thread although the test is
/// not checked. The thread has the name of that test.
fn unchecked_test() -> Option<Arc<Subject>> {
    let thread = thread::current();
    let mut cases = registry::cases().into_iter();
    let case = cases.find(|case| thread.name() == Some(case.name()))?;
    Some(Arc::new(subject_of(case)))
}
