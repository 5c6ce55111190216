//! What a process holds at one moment, and what of it somebody is known to keep.

use rustc_hash::FxHashSet;

use super::NAMES;
use crate::check::conclude::sites::Sites;
use crate::check::measure::sources;
use crate::check::measure::stretch::is_the_runtime_s_code;
use crate::check::names::Names;
use crate::judge::{self, Held, Reading, What};
use crate::ledger::{self, Anomaly, Layer, Mark, Record};
use crate::report::keeps_what_it_takes;
use crate::report::model::{Finding, FindingKind};

/// The moment at which a process began to exit.
#[derive(Debug)]
pub(super) struct AtExit {
    mark: Mark,
}

impl AtExit {
    pub(super) fn now() -> Self {
        Self {
            mark: ledger::live().mark(),
        }
    }
}

/// Everything that is held.
#[derive(Debug)]
pub(super) struct Living {
    pub(super) held: Vec<Held>,
    pub(super) reading: Reading,
}

impl Living {
    /// What is held now; once the process exits, also what has ended with its contexts since.
    pub(super) fn now(exit: Option<&AtExit>, sites: &mut Sites<'_>) -> Self {
        let ledger = ledger::live();
        let mut records = ledger.select(|_| true);
        let mut before = ledger.anomalies_since(Mark::default());
        if let Some(exit) = exit {
            let since = ledger.anomalies_since(exit.mark);
            before.truncate(before.len() - since.len());
            records.extend(since.iter().filter_map(ended_with_context));
        }
        records.retain(|record| !is_the_runtime_s_code(record, &NAMES));
        // Named again and then gone, it is one all the same.
        let mut met = FxHashSet::default();
        records.retain(|record| met.insert(record.sequence));
        before.retain(|anomaly| {
            ended_with_context(anomaly).is_none_or(|record| !is_the_runtime_s_code(&record, &NAMES))
        });

        let live = |record: &Record| (*record, What::Live(record.made.kind), None);
        let mut held = judge::group(records.iter().map(live));
        judge::tell_what_holds(&records, &ledger.holdings(), &mut held);
        judge::happened(&before, false, &records, &mut held);
        for held in &mut held {
            let scope = ledger::ScopeId::NONE;
            let taken = ledger.taken(held.key.stack, scope);
            held.taken = taken.unwrap_or(held.count).max(held.count);
        }
        Self {
            held: sites.merge(&held),
            reading: sources::read_counters(&[]),
        }
    }
}

fn ended_with_context(anomaly: &Anomaly) -> Option<Record> {
    match anomaly {
        Anomaly::EndedWithContext { record, .. } => Some(*record),
        _ => None,
    }
}

/// The name of the caching allocator that holds this, and of who uses it.
pub(super) fn allocator(held: &Held) -> Option<(&'static str, &'static str)> {
    let is_memory = matches!(
        held.key.what,
        What::Live(kind) | What::EndedWithContext(kind, _) if !kind.is_handle()
    );
    if !is_memory || held.key.layer != Layer::DRIVER {
        return None;
    }
    let allocator = NAMES.allocator(held.key.stack)?;
    Some((allocator.name, allocator.used_by))
}

/// Marks what is known to stay until the process ends: nobody leaks it.
pub(super) fn tell(mut finding: Finding, held: &Held) -> Finding {
    if finding.kind != FindingKind::Leaked {
        return finding;
    }
    if let Some((name, used_by)) = allocator(held) {
        finding.kind = FindingKind::Allowed;
        finding.notes.push(format!(
            "kept by {name}, the caching allocator of {used_by}, which hands it out in pieces: \
             which of them are in use, only it knows"
        ));
    } else if let Some(library) = &finding.site.library
        && keeps_what_it_takes(&library.name)
    {
        finding.kind = FindingKind::Allowed;
        finding.notes.push(format!(
            "kept by {} for itself: at the end of a process this is told, and fails nothing",
            library.name
        ));
    }
    finding
}
