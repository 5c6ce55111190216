//! Finds the places in the program that still refer to the resources that a check reports. The
//! search covers only resources that fail the check or are first use.

mod search;

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use gpu_leak_holders::{RootKind, Target, Unknown, enclosing, nearest};
use gpu_leak_interpose::MarkedThread;
use rustc_hash::{FxHashMap, FxHashSet};

pub(super) use self::search::reported_by_allocator;
use self::search::{Searching, search, target};
use crate::call_site::site_of;
pub(super) use crate::capture::heap::{WatchedHeap, unnoted, watch as watch_heap};
use crate::capture::thread::SYSTEM_NAME_LENGTH;
use crate::judge::{LINES_AFTER, LINES_BEFORE, passage, shown_up_to};
use crate::ledger::{self, Kind, Record, StackId};
use crate::observe;
use crate::recursion_guard::quiet;
use crate::report::check_report::{
    CheckStatus, Confirmation, Enclosing, Finding, FindingKind, Frame, Holder, HolderKind,
    HolderRoot, Outlived, Passage, PassageKind, Report, Site,
};
use crate::report::symbols;
use crate::units::count;

/// The largest number of resources of one finding that are searched for.
const MAX_SEARCHED: usize = 4096;
/// A finding lists at most this many places at which blocks that had contained its address were
/// freed.
const MOST_PLACES: usize = 2;
/// A finding shows at most this many source lines for the uses of a static, for the allocations of
/// the blocks of a cycle, or for the drops of an owner.
const MOST_USES: usize = 3;

/// Adds the holders that can be found within `time` to the findings of `report`. `records` contains
/// the records of each finding, and `heap` what is known about the program's heap blocks.
///
/// `at_the_end` says whether the process is ending. If so, a leak counts as first use if everything
/// that is left of it is reachable from statics or from thread-locals of the first thread, which
/// are never dropped. For a block that an allocator reports, the address must be in the static
/// itself, because every block, even one that the program has forgotten, is reachable from the
/// allocator's own table, which is often a map in a static. The status of `report` changes with its
/// findings.
pub(crate) fn add(
    report: &mut Report,
    records: &[Vec<u64>],
    time: Duration,
    at_the_end: bool,
    heap: Option<&WatchedHeap>,
) {
    // Maps each record to its group: its finding or, at the end of the process, the record itself.
    let mut groups = FxHashMap::default();
    for (at, (finding, records)) in report.findings.iter().zip(records).enumerate() {
        if is_sought(finding.kind) {
            for record in records.iter().take(MAX_SEARCHED) {
                let group = if at_the_end { groups.len() } else { at };
                groups.insert(*record, group);
            }
        }
    }
    if groups.is_empty() {
        return;
    }
    // At the end of the process, the kind of a finding depends on what is found.
    let _searching = match Searching::begin(time) {
        Err(why) if !at_the_end => {
            let sought = report.findings.iter_mut().filter(|it| is_sought(it.kind));
            for finding in sought.filter(|it| !is_explained(it)) {
                finding.not_searched = Some(why.clone());
            }
            return;
        }
        searching => searching.ok(),
    };
    let number = match at_the_end {
        true => groups.len(),
        false => report.findings.len(),
    };
    let searched = search(number, time, |record| groups.get(&record).copied());
    let Some((found, without_address)) = searched else {
        return;
    };
    let blocks = heap.map(|heap| KnownBlocks(heap.live()));
    let blocks = blocks.unwrap_or_default();
    let started = started_threads();
    let own_sources = observe::own_sources();
    for (finding, records) in report.findings.iter_mut().zip(records) {
        let mut of_records: Vec<usize> = records
            .iter()
            .filter_map(|record| groups.get(record).copied())
            .collect();
        of_records.dedup();
        if of_records.is_empty() {
            continue;
        }
        let has_none = of_records.iter().any(|at| without_address.contains(at));
        let unknown = of_records
            .iter()
            .find_map(|group| found[*group].as_ref().err());
        let of_records = of_records.iter().map(|group| found[*group].as_deref().ok());
        let is_block = finding.resource == Some(Kind::Block);
        let is_allocator_s = |it: &gpu_leak_holders::Holder| {
            let used_at = it.used_at.as_deref();
            let may_be = used_at.is_none_or(|used_at| symbols::are_own(used_at, &own_sources));
            is_block && is_static(it) && may_be
        };
        let is_kept = |holders: Option<&[gpu_leak_holders::Holder]>| {
            let mut holders = holders.into_iter().flatten();
            holders.any(|it| is_static(it) && (!is_block || it.blocks == 0) && !is_allocator_s(it))
        };
        if at_the_end
            && fails(finding.kind)
            && of_records.len() == records.len()
            && of_records.clone().all(is_kept)
        {
            finding.kind = FindingKind::FirstUse;
            finding.confirmed = Some(Confirmation::HeldByStatic);
        }
        // If a library made the allocations, their addresses are in the library's own tables, which
        // are not searched.
        let may_be_none = records.len() <= MAX_SEARCHED
            && finding.site.library.is_none()
            && of_records.clone().all(|holders| holders.is_some());
        let mut holders: Vec<_> = of_records.flatten().flatten().cloned().collect();
        let all = holders.len();
        let is_unsure = holders.iter().any(|it| is_block && it.used_at.is_none());
        // From a static that only an allocator uses, all of the allocator's blocks are reachable,
        // even forgotten ones. A search that ended at such a static does not show whether there
        // are other holders.
        holders.retain(|holder| !is_allocator_s(holder));
        let is_known = holders.len() == all;
        let statics = holders.iter().filter(|it| is_static(it));
        let users: Vec<_> = statics
            .flat_map(|it| used_in(it.used_at.as_deref().unwrap_or_default()))
            .collect();
        show(finding, &users, PassageKind::UsesHolder);
        let holder = |found| holder(found, &blocks, &started, &report.test);
        finding.holders = (may_be_none && is_known || !holders.is_empty()).then(|| {
            let mut holders: Vec<_> = nearest(holders).into_iter().map(holder).collect();
            // Several threads without a name may run the same function.
            holders.dedup();
            holders
        });
        if finding.holders.is_none() && !is_explained(finding) {
            finding.not_searched = match finding.resource.filter(|_| has_none) {
                Some(kind) => Some(format!(
                    "references to {} memory are not searched for",
                    kind.name()
                )),
                None if records.len() > MAX_SEARCHED => Some(format!(
                    "there are more than {} leaked resources to search for",
                    count(MAX_SEARCHED as u64)
                )),
                None if !is_known && is_unsure => Some(Unknown::OutOfTime(time).to_string()),
                None if !is_known => Some(ONLY_ITS_ALLOCATOR.to_owned()),
                None => unknown.map(Unknown::to_string),
            };
        }
    }
    if let Some(heap) = heap {
        add_blocks(report, records, &blocks, heap, time);
    }
    if at_the_end && matches!(report.status, CheckStatus::Found(_)) {
        let worst = report.findings.iter().map(|finding| finding.kind).min();
        report.status = worst.map_or(CheckStatus::Clean, CheckStatus::Found);
    }
}

/// Handles each finding for which the search found no holder: adds the blocks that still contain
/// one of its addresses, or the lines at which blocks that contained one were freed.
fn add_blocks(
    report: &mut Report,
    records: &[Vec<u64>],
    blocks: &KnownBlocks,
    heap: &WatchedHeap,
    time: Duration,
) {
    let is_forgotten = |finding: &Finding| finding.holders.as_ref().is_some_and(Vec::is_empty);
    let forgotten = report.findings.iter().zip(records).enumerate();
    let forgotten = forgotten.filter(|(_, (finding, _))| is_forgotten(finding));
    let wanted = forgotten.flat_map(|(at, (_, records))| {
        let records = records.iter().take(MAX_SEARCHED);
        records.map(move |record| (*record, at))
    });
    let wanted: FxHashMap<u64, usize> = wanted.collect();
    if wanted.is_empty() {
        return;
    }
    let _quiet = quiet();
    let is_wanted = |record: &Record| {
        // The heap's blocks were not recorded in earlier runs.
        wanted.contains_key(&record.sequence) && heap.saw(record.sequence)
    };
    let live = ledger::live().select(is_wanted);
    // Each resource is a group of its own, because statements about a finding must be true of all
    // of its resources.
    let mut targets: Vec<Target> = Vec::new();
    let mut ranges = Vec::new();
    let mut of_finding: Vec<Vec<usize>> = vec![Vec::new(); report.findings.len()];
    for record in &live {
        if let Some(target) = target(record, targets.len()) {
            of_finding[wanted[&record.sequence]].push(target.group);
            ranges.push((target.range(), record.sequence));
            targets.push(target);
        }
    }
    let freed = heap.last_freed(&ranges);
    let groups = targets.len();
    let ranges: Vec<_> = blocks.0.iter().map(|(block, _)| block.clone()).collect();
    let found = enclosing(targets, groups, &ranges, time);
    for (finding, groups) in report.findings.iter_mut().zip(of_finding) {
        let found: Option<Vec<_>> = groups.iter().map(|group| found[*group].as_ref()).collect();
        match found.filter(|found| !found.is_empty()) {
            Some(found) => {
                let mut all: Vec<u64> = Vec::new();
                let mut met = FxHashSet::default();
                let each = found.iter().flat_map(|found| found.blocks.iter().copied());
                all.extend(each.filter(|block| met.insert(*block)));
                let is_cycle = found.iter().all(|found| found.is_cycle);
                let allocated_in = blocks.allocated_in(&all);
                if is_cycle {
                    show(finding, &allocated_in, PassageKind::InCycle);
                }
                finding.enclosing = Some(Enclosing {
                    blocks: all.len() as u32,
                    is_cycle,
                    allocated_in: shown(&allocated_in),
                });
            }
            None => {
                let freed = groups.iter().filter_map(|group| freed[*group]);
                let stacks: BTreeSet<_> = freed
                    .map(|(_, freed, allocated)| (freed, allocated))
                    .collect();
                let ends: BTreeSet<_> = stacks.iter().map(|(freed, _)| *freed).collect();
                let outlived = stacks.into_iter().filter_map(|(freed, allocated)| {
                    let freed = Some(site(freed)).filter(|it| it.user_frame().is_some())?;
                    Some(Outlived {
                        freed_at: shown_up_to(&finding.site, &freed).shown(&report.test),
                        allocated_in: site(allocated).user_frame().map(Frame::shown),
                    })
                });
                let outlived: BTreeSet<_> = outlived.collect();
                finding.outlived = outlived.into_iter().take(MOST_PLACES).collect();
                let mut dropped = Vec::new();
                for freed in ends {
                    add_line(&mut dropped, Some(site(freed)));
                }
                dropped.retain(|it| !it.is_of_test(&report.test) && !is_quoted(finding, it));
                let is_wrong = |it: &Passage| it.what == PassageKind::FreesInside;
                if !finding.passages.iter().any(is_wrong) {
                    show(finding, &dropped, PassageKind::DropsHolder);
                }
            }
        }
    }
}

/// The live heap blocks whose place of allocation is known, sorted by address.
#[derive(Debug, Default)]
struct KnownBlocks(Vec<(Range<u64>, StackId)>);

impl KnownBlocks {
    /// Returns the lines at which those of `blocks` that are known were allocated, without
    /// duplicates.
    fn allocated_in(&self, blocks: &[u64]) -> Vec<Frame> {
        let mut all: Vec<Frame> = Vec::new();
        for block in blocks {
            let known = self.0.binary_search_by_key(block, |(known, _)| known.start);
            let known = known.ok().map(|at| site(self.0[at].1));
            add_line(&mut all, known);
        }
        all
    }
}

/// Adds the user's line of a call site, unless that line is already included.
fn add_line(all: &mut Vec<Frame>, site: Option<Site>) {
    let frame = site.and_then(|site| site.user_frame().cloned());
    all.extend(frame.filter(|frame| all.iter().all(|it| it.shown() != frame.shown())));
}

fn shown(frames: &[Frame]) -> Vec<String> {
    frames.iter().map(Frame::shown).collect()
}

/// Shows these lines with a finding.
fn show(finding: &mut Finding, frames: &[Frame], what: PassageKind) {
    if finding.kind != FindingKind::FirstUse {
        let frames = frames.iter().take(MOST_USES);
        finding.held_at = frames.filter_map(|it| passage(what, it, 0)).collect();
    }
}

/// Whether a passage of the finding already shows this line, perhaps as a neighbouring line.
fn is_quoted(finding: &Finding, frame: &Frame) -> bool {
    finding.passages.iter().any(|it| {
        let first = it.frame.line.map(|line| line.saturating_sub(LINES_BEFORE));
        let lines = first..=Some(it.until.saturating_add(LINES_AFTER));
        it.frame.file == frame.file && lines.contains(&frame.line)
    })
}

/// Returns the call site that allocated or freed a heap block.
fn site(stack: StackId) -> Site {
    site_of(symbols::frames(stack, &observe::own_sources()), Kind::Block)
}

/// Whether the holders of findings of this kind are searched for.
fn is_sought(kind: FindingKind) -> bool {
    fails(kind) || kind == FindingKind::FirstUse
}

/// Whether the report already says how the context ended, or which library holds the resource.
fn is_explained(finding: &Finding) -> bool {
    finding.ended.is_some() || finding.site.library.is_some()
}

/// Whether a finding fails its check and concerns something live.
fn fails(kind: FindingKind) -> bool {
    matches!(kind, FindingKind::Leaked | FindingKind::Grew)
}

/// The reason that is reported if nothing else was found.
const ONLY_ITS_ALLOCATOR: &str = "a static of its allocator refers to every block, including this one, so the search ended \
     there";

fn is_static(holder: &gpu_leak_holders::Holder) -> bool {
    holder.root.kind == RootKind::Static
}

/// Converts a holder to the form that reports use.
fn holder(
    holder: gpu_leak_holders::Holder,
    known: &KnownBlocks,
    started: &FxHashMap<u32, MarkedThread>,
    test: &str,
) -> Holder {
    let root = holder.root;
    let started = root.thread_id.and_then(|id| started.get(&id));
    let line = |site: Site| Some(site.user_frame()?.shown());
    let marked = |mark: u64| {
        let stack = u32::try_from(mark).ok().filter(|stack| *stack != 0)?;
        line(site(StackId(stack)))
    };
    let waits_at: Vec<usize> = holder.waits_at.into_iter().map(|it| it as usize).collect();
    Holder {
        root: HolderRoot {
            kind: match root.kind {
                RootKind::Static => HolderKind::Static,
                RootKind::ThreadLocal => HolderKind::ThreadLocal,
                RootKind::Stack => HolderKind::Stack,
            },
            name: root.name,
            thread: root
                .thread
                .and_then(|name| thread_name(name, started.is_some(), test)),
            used_in: shown(&used_in(holder.used_at.as_deref().unwrap_or_default())),
            started_in: started.and_then(|thread| marked(thread.started)),
            detached_in: started.and_then(|thread| marked(thread.detached)),
            waits_in: line(symbols::site(
                &waits_at,
                Kind::Block,
                &observe::own_sources(),
            )),
            module: root.module,
        },
        blocks: holder.blocks,
        allocated_in: shown(&known.allocated_in(&holder.path)),
    }
}

/// Returns the program's lines at these code addresses.
fn used_in(addresses: &[u64]) -> Vec<Frame> {
    let mut all: Vec<Frame> = Vec::new();
    for address in addresses {
        let site = symbols::site(&[*address as usize], Kind::Block, &observe::own_sources());
        add_line(&mut all, Some(site));
        if all.len() == MOST_USES {
            break;
        }
    }
    all
}

/// Returns the full name of a thread if it can be determined. The system keeps only the beginning
/// of each name. A thread that the test starts without a name has the test's name.
fn thread_name(kept: String, is_started_by_a_test: bool, test: &str) -> Option<String> {
    match kept.len() {
        ..SYSTEM_NAME_LENGTH => Some(kept),
        _ if !test.starts_with(&kept) => Some(kept + "…"),
        _ => (!is_started_by_a_test).then(|| test.to_owned()),
    }
}

/// Returns the live threads that a check's own threads have started, by ID.
fn started_threads() -> FxHashMap<u32, MarkedThread> {
    let threads = gpu_leak_interpose::marked_threads().into_iter();
    let started = threads.filter_map(|thread| Some((u32::try_from(thread.id).ok()?, thread)));
    started.collect()
}
