//! What of the program still leads to what a check found: asked only where it fails.

use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::check::measure::Measured;
use crate::check::names::{Live, Names};
use crate::device::quiet::quiet;
use crate::judge::{HeldKey, What};
use crate::ledger::event::Space;
use crate::ledger::{self, Layer, Record, ScopeId, StackId};
use crate::referrers::{self, Handles, Target};
use crate::report::model::{Finding, FindingKind, Report};

/// How many of one finding are looked for.
const MOST: usize = 4096;

/// Adds what can be found in `time` to the findings of `report`: left by `first`, or by another of
/// `scopes` at the same place.
pub(crate) fn tell(report: &mut Report, first: &Measured, scopes: &[ScopeId], time: Duration) {
    if time.is_zero() || !report.findings.iter().any(fails) {
        return;
    }
    let _quiet = quiet();
    let is_told = |record: &Record| {
        record.made.layer == Layer::DRIVER
            && record.sequence >= first.began
            && scopes.contains(&record.made.caller.scope)
            && first
                .held
                .iter()
                .any(|held| held.key == HeldKey::of(record, What::Live(record.made.kind)))
    };
    let mut finder = Finder::default();
    let mut counts = vec![0; report.findings.len()];
    let mut targets = Vec::new();
    for record in ledger::live().select(is_told) {
        let Some(finding) = finder.finding(&record, &report.findings) else {
            continue;
        };
        counts[finding] += 1;
        if counts[finding] <= MOST {
            targets.extend(target(&record, finding));
        }
    }
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

/// Which finding a record belongs to.
#[derive(Debug, Default)]
struct Finder {
    known: FxHashMap<(StackId, HeldKey), Option<usize>>,
}

impl Finder {
    fn finding(&mut self, record: &Record, findings: &[Finding]) -> Option<usize> {
        let made = &record.made;
        let key = HeldKey::of(record, What::Live(made.kind));
        let known = self.known.entry((made.caller.stack, key));
        *known.or_insert_with(|| {
            let site = Live.site(made.caller.stack, made.kind);
            let line = site.user_frame().map(|frame| (&frame.file, frame.line));
            findings.iter().position(|finding| {
                let of = finding.site.user_frame();
                fails(finding)
                    && (finding.layer, finding.place, finding.resource)
                        == (made.layer, made.place, Some(made.kind))
                    && finding.site.fingerprint == site.fingerprint
                    && of.map(|frame| (&frame.file, frame.line)) == line
            })
        })
    }
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
