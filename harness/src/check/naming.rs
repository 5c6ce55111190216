//! Collects the names that a judgement may use: those of call sites, devices, threads and errors.

use super::blind::culprit;
use crate::api::vulkan;
use crate::capture::thread::thread_name;
use crate::device::contexts::device_name;
use crate::device::driver::error_name;
use crate::device::{memory, neighbours};
use crate::judge::{NameTable, Ownership, RunInput};
use crate::ledger::event::{CuResult, ThreadNumber};
use crate::ledger::{self, Anomaly, Place, Record, StackId};
use crate::observe;
use crate::report::symbols;

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
    for record in &run.freed_by_shutdown {
        add_stack(names, record.made.caller.stack);
    }
    for freed in &run.freed_before {
        add_stack(names, freed.record.made.caller.stack);
        add_stack(names, freed.stack);
    }
    for free in &run.freed_inside {
        add_stack(names, free.stack);
    }
    for freed in &run.freed_of_run {
        add_stack(names, freed.allocated);
        add_stack(names, freed.freed);
    }
    for anomaly in &run.anomalies {
        match anomaly {
            Anomaly::FailedFree(failed) => {
                add_stack(names, failed.caller.stack);
                if let Some(record) = failed.record {
                    add_stack(names, record.made.caller.stack);
                }
                add_error(names, failed.error);
            }
            Anomaly::FailedCreation { caller, error, .. } => {
                add_stack(names, caller.stack);
                add_error(names, *error);
            }
            Anomaly::EndedWithContext { record, caller, .. } => {
                add_stack(names, caller.stack);
                add_stack(names, record.made.caller.stack);
                add_label(names, record);
            }
            Anomaly::Overwritten { record, .. } => {
                add_stack(names, record.made.caller.stack);
                add_label(names, record);
            }
        }
    }
    for site in run.over_budget.iter().flat_map(|over| &over.sites) {
        add_stack(names, site.stack);
    }
    for it in run.over_budget.iter().flat_map(|over| &over.in_turn) {
        add_stack(names, it.stack);
    }
    for reading in run.peaks.iter().filter(|reading| reading.made != 0) {
        let at_peak = reading.at_peak.iter().map(|site| site.stack);
        let in_turn = reading.in_turn.iter().map(|it| it.stack);
        let logged = reading.lifetimes.iter().map(|life| life.stack);
        for stack in at_peak.chain(in_turn).chain(logged) {
            add_stack(names, stack);
        }
    }
    for site in run.graphs.iter().flat_map(|graph| &graph.sites) {
        add_stack(names, site.stack);
    }
    let broken = run.broken_before.or(run.broken_inside);
    if let Some(broken) = broken {
        add_error(names, broken.error);
        names.broken_by = culprit();
    }
    for place in &run.baseline.places() | &run.end.places() {
        add_device(names, place, run);
    }
}

fn add_stack(names: &mut NameTable, stack: StackId) {
    names.frames.entry(stack).or_insert_with(|| {
        let frames = ledger::live().stacks().frames(stack);
        symbols::frames(frames, &observe::own_sources())
    });
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
        names.neighbours.extend(neighbours::that_use_cuda());
        if was.limits.stack != is.limits.stack {
            let threads = || memory::resident_threads(place);
            names.resident_threads.entry(place).or_insert_with(threads);
        }
    }
}
