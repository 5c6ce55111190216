//! Finds which places of the program still refer to what a check found. Only what fails and what is first
//! use is searched for.

use std::time::Duration;
use std::{fs, thread};

use gpu_leak_holders::{
    DriverObjects, Mapping, NameRules, Program, Root, RootKind, Target, find, nearest,
};
use rustc_hash::FxHashMap;

use super::allocators_own;
pub(super) use super::allocators_own::reported as reported_by_allocator;
use crate::api::vulkan;
use crate::call_site::{as_written, libraries};
use crate::capture::{self, mappings, modules};
use crate::ledger::event::Space;
use crate::ledger::{self, Kind, Record};
use crate::recursion_guard::quiet;
use crate::report;
use crate::report::check_report::{
    CheckStatus, Confirmation, FindingKind, Holder, HolderKind, HolderRoot, Report,
};

/// How many resources of one finding are searched for.
const MAX_SEARCHED: usize = 4096;
/// The stack size of the search, in bytes.
const STACK: usize = 1 << 20;

/// Adds the holders that can be found within `time` to the findings of `report`; `records` has the
/// records of each.
///
/// `at_the_end`: whether the process is ending. Then a leak is taken for first use if a static or a
/// thread-local of the first thread leads to everything that is left of it, since those are never dropped;
/// the status of `report` changes with its findings. A block of an allocator that reports it must stand in
/// the static itself: an allocator's own table, which is often a map in a static, leads to each block, also
/// to those that the program has forgotten.
pub(crate) fn add(report: &mut Report, records: &[Vec<u64>], time: Duration, at_the_end: bool) {
    // The group of each record: its finding or, at the end, the record itself.
    let mut groups = FxHashMap::default();
    for (at, (finding, records)) in report.findings.iter().zip(records).enumerate() {
        if fails(finding.kind) || finding.kind == FindingKind::FirstUse {
            for record in records.iter().take(MAX_SEARCHED) {
                let group = if at_the_end { groups.len() } else { at };
                groups.insert(*record, group);
            }
        }
    }
    let count = match at_the_end {
        true => groups.len(),
        false => report.findings.len(),
    };
    let Some(found) = search(count, time, |record| groups.get(&record).copied()) else {
        return;
    };
    for (finding, records) in report.findings.iter_mut().zip(records) {
        let mut of_records: Vec<usize> = records
            .iter()
            .filter_map(|record| groups.get(record).copied())
            .collect();
        of_records.dedup();
        if of_records.is_empty() {
            continue;
        }
        let of_records = of_records.iter().map(|group| found[*group].as_deref());
        let may_be_far = finding.resource != Some(Kind::Block);
        let is_kept = |holders: Option<&[gpu_leak_holders::Holder]>| {
            let mut holders = holders.into_iter().flatten();
            holders.any(|it| it.root.kind == RootKind::Static && (may_be_far || it.blocks == 0))
        };
        if at_the_end
            && fails(finding.kind)
            && of_records.len() == records.len()
            && of_records.clone().all(is_kept)
        {
            finding.kind = FindingKind::FirstUse;
            finding.confirmed = Some(Confirmation::HeldByStatic);
        }
        // What a library allocated is in the library's own tables, which are not searched.
        let may_be_none = records.len() <= MAX_SEARCHED
            && finding.site.library.is_none()
            && of_records.clone().all(|holders| holders.is_some());
        let holders: Vec<_> = of_records.flatten().flatten().cloned().collect();
        finding.holders = (may_be_none || !holders.is_empty())
            .then(|| nearest(holders).into_iter().map(holder).collect());
    }
    if at_the_end && matches!(report.status, CheckStatus::Found(_)) {
        let worst = report.findings.iter().map(|finding| finding.kind).min();
        report.status = worst.map_or(CheckStatus::Clean, CheckStatus::Found);
    }
}

/// Searches for the live records that have a group, within `time`. Returns the holders of each of the
/// `groups`; `None` if there is nothing to search for.
fn search(
    groups: usize,
    time: Duration,
    group: impl Fn(u64) -> Option<usize>,
) -> Option<Vec<Option<Vec<gpu_leak_holders::Holder>>>> {
    if time.is_zero() || groups == 0 {
        return None;
    }
    let _quiet = quiet();
    let found = ledger::live().select(|record| group(record.sequence).is_some());
    let targets = found
        .iter()
        .filter_map(|record| target(record, group(record.sequence)?));
    let targets: Vec<Target> = targets.collect();
    // A copy of an address in the harness's own memory would be found as its holder.
    drop(found);
    if targets.is_empty() {
        return None;
    }
    let maps = mappings::of_this_process();
    let mappings: Vec<_> = mappings::parse(&maps).map(mapping).collect();
    let program = Program {
        mappings: &mappings,
        names: NAMES,
        asking_thread: this_thread().unwrap_or(0),
        asking_stack: &own_stack(),
        allocators_words: &allocators_own::words(),
        waiting_stack: capture::walk_waiting,
    };
    let objects = objects();
    let search = || {
        let _quiet = quiet();
        find(targets, groups, objects, program, time)
    };
    // On a separate thread, because a test's stack may be as small as its author likes.
    thread::scope(|scope| {
        let searching = thread::Builder::new().name("gpu-leak-check".to_owned());
        let searching = searching.stack_size(STACK);
        let searching = searching.spawn_scoped(scope, search).ok()?;
        searching.join().ok()
    })
}

/// Whether a finding fails its check and concerns something live.
fn fails(kind: FindingKind) -> bool {
    matches!(kind, FindingKind::Leaked | FindingKind::Grew)
}

/// Returns the value that refers to a record in memory; `None` if its key is a number of the
/// ledger or an offset in a device's own address space, or if it was the program's before the driver
/// knew it.
fn target(record: &Record, finding: usize) -> Option<Target> {
    let first = record.made.key.value;
    let bytes = match record.made.key.space {
        Space::DevicePointer | Space::HostPointer | Space::IpcPointer | Space::Observed(_) => {
            record.made.bytes.max(1)
        }
        Space::Handle(_) | Space::Object { .. } => 1,
        _ => return None,
    };
    Some(Target {
        values: first..first.saturating_add(bytes),
        group: finding,
    })
}

/// Returns the driver's live objects.
fn objects() -> DriverObjects {
    let ledger = ledger::live();
    let is_handle = |record: &Record| {
        matches!(
            record.made.key.space,
            Space::Handle(_) | Space::Object { .. }
        )
    };
    let contexts = ledger.contexts().into_iter().map(|context| context.handle);
    let mut objects = DriverObjects {
        contexts: contexts.filter(|handle| *handle != 0).collect(),
        functions: vulkan::functions_found(),
        ..DriverObjects::default()
    };
    objects.all.extend(&objects.contexts);
    let records = ledger.select(is_handle);
    let handles = records.iter().map(|record| record.made.key.value);
    objects.all.extend(handles);
    // Physical devices are never created, and lead to everything of their instance.
    objects.all.extend(vulkan::handles());
    objects
}

const NAMES: NameRules = NameRules {
    is_vendor_library: report::is_cuda_library,
    is_vendor_function: report::is_cuda_function,
    is_known_library: libraries::is_known_library,
    is_in_a_system_directory: modules::is_in_a_system_directory,
    as_written,
};

fn mapping(mapping: mappings::Mapping<'_>) -> Mapping<'_> {
    let addresses = mapping.addresses();
    Mapping {
        addresses: addresses.start as u64..addresses.end as u64,
        readable: mapping.readable,
        writable: mapping.writable,
        executable: mapping.executable,
        offset: mapping.offset,
        file: mapping.file(),
        name: mapping.name,
    }
}

/// Returns the number of this thread in `/proc/self/task`.
fn this_thread() -> Option<u32> {
    let link = fs::read_link("/proc/thread-self").ok()?;
    link.file_name()?.to_str()?.parse().ok()
}

/// Returns the return addresses on the stack of this thread, each with its stack slot.
fn own_stack() -> Vec<(u64, u64)> {
    let mut returns = Vec::new();
    capture::trace(|stack, address| {
        // An unwinder that does not know the stack pointer returns 0.
        if stack != 0 {
            returns.push(((stack as u64).saturating_sub(8), address as u64));
        }
        true
    });
    returns
}

/// Converts a holder to the form of reports.
fn holder(holder: gpu_leak_holders::Holder) -> Holder {
    let gpu_leak_holders::Holder { root, blocks } = holder;
    let Root {
        kind,
        name,
        thread,
        module,
    } = root;
    Holder {
        root: HolderRoot {
            kind: match kind {
                RootKind::Static => HolderKind::Static,
                RootKind::ThreadLocal => HolderKind::ThreadLocal,
                RootKind::Stack => HolderKind::Stack,
            },
            name,
            thread,
            module,
        },
        blocks,
    }
}
