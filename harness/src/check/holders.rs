//! What of the program still leads to what a check found: asked only where it fails.

use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::device::quiet::quiet;
use crate::ledger::event::Space;
use crate::ledger::{self, Layer, Record};
use crate::referrers::{self, Handles, Target};
use crate::report::model::{Finding, FindingKind, Report};

/// How many of one finding are looked for.
const MOST: usize = 4096;

/// Adds what can be found in `time` to the findings of `report`, each about these `records`.
pub(crate) fn add(report: &mut Report, records: &[Vec<u64>], time: Duration) {
    if time.is_zero() || !report.findings.iter().any(fails) {
        return;
    }
    let _quiet = quiet();
    let mut finding_of: FxHashMap<u64, usize> = FxHashMap::default();
    let mut counts = vec![0; report.findings.len()];
    for (at, (finding, records)) in report.findings.iter().zip(records).enumerate() {
        if fails(finding) && finding.layer == Layer::DRIVER {
            counts[at] = records.len();
            finding_of.extend(records.iter().take(MOST).map(|record| (*record, at)));
        }
    }
    let is_reported = |record: &Record| finding_of.contains_key(&record.sequence);
    let found = ledger::live().select(is_reported);
    let targets = found
        .iter()
        .filter_map(|record| target(record, *finding_of.get(&record.sequence)?));
    let targets: Vec<Target> = targets.collect();
    // A copy of an address in the harness's own memory would be found as its holder.
    drop(found);
    if targets.is_empty() {
        return;
    }
    let found = referrers::find(targets, report.findings.len(), handles(), time);
    for ((finding, found), count) in report.findings.iter_mut().zip(found).zip(counts) {
        // What a library took lies in its own tables, which are not looked into.
        let may_be_none = count <= MOST && finding.site.library.is_none();
        finding.referrers = found.filter(|found| may_be_none || !found.is_empty());
    }
}

/// Whether a finding fails its check, and is of something live.
fn fails(finding: &Finding) -> bool {
    matches!(finding.kind, FindingKind::Leaked | FindingKind::Grew)
}

/// What means a record in memory; nothing where its key is a number of the ledger's own, and for
/// what belongs to the program before the driver knew it.
fn target(record: &Record, finding: usize) -> Option<Target> {
    let first = record.made.key.value;
    let bytes = match record.made.key.space {
        Space::DevicePointer | Space::HostPointer | Space::IpcPointer => record.made.bytes.max(1),
        Space::Handle(_) => 1,
        _ => return None,
    };
    Some(Target {
        values: first..first.saturating_add(bytes),
        group: finding,
    })
}

/// The objects that are known.
fn handles() -> Handles {
    let ledger = ledger::live();
    let is_handle = |record: &Record| matches!(record.made.key.space, Space::Handle(_));
    let contexts = ledger.contexts().into_iter().map(|context| context.handle);
    let mut handles = Handles {
        contexts: contexts.filter(|handle| *handle != 0).collect(),
        ..Handles::default()
    };
    handles.all.extend(&handles.contexts);
    let objects = ledger.select(is_handle);
    handles
        .all
        .extend(objects.iter().map(|record| record.made.key.value));
    handles
}
