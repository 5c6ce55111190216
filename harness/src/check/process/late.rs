//! Reports resources that are freed after the verdict. The verdict does not change, but the run's
//! summary and file say how late the free was, because a longer `settle` may be all that is needed.

use std::sync::Once;
use std::time::Instant;

use rustc_hash::{FxHashMap, FxHashSet};

use super::exit_summary;
use crate::exit;
use crate::judge::CheckResult;
use crate::ledger::{self, LoggedFree, ScopeId};
use crate::report::Sink;
use crate::report::check_report::{FindingKind, Report};
use crate::report::run_file::{Late, Record};
use crate::sync::{Mutex, locked};
use crate::units::total;

/// A check that has found leaks.
struct Leaked {
    test: String,
    file: String,
    line: u32,
    at: Instant,
    /// The sequence numbers of the leaked records.
    records: FxHashSet<u64>,
}

static LEAKED: Mutex<Vec<Leaked>> = Mutex::new(Vec::new());

/// Begins to watch for late frees of the resources that `result` reports for these scopes.
pub(crate) fn watch_for_frees(report: &Report, scopes: &[ScopeId], result: &CheckResult) {
    // Frees are watched by scope rather than by live record, because a record may be freed before
    // it can be looked up.
    ledger::live().free_log.begin(scopes, Instant::now);
    let records = result.findings.iter().zip(&result.records);
    let leaked = records.filter(|(finding, _)| finding.kind == FindingKind::Leaked);
    locked(&LEAKED).push(Leaked {
        test: report.test.clone(),
        file: report.file.clone(),
        line: report.line,
        at: Instant::now(),
        records: leaked.flat_map(|(_, records)| records).copied().collect(),
    });
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // The newest exit handler runs first, so the summary is printed after this handler has run.
        exit_summary::print_at_exit();
        exit::at_exit(add_late_frees);
    });
}

/// Adds late frees to the summary and to the run file.
pub(crate) fn add_late_frees() {
    let all = std::mem::take(&mut *locked(&LEAKED));
    if all.is_empty() {
        return;
    }
    // The frees are read once for all checks, because there may be thousands of both.
    let frees: FxHashMap<u64, LoggedFree> = ledger::live()
        .free_log
        .frees(|_| true)
        .into_iter()
        .map(|free| (free.record.sequence, free))
        .collect();
    for late in all.iter().filter_map(|leaked| late(leaked, &frees)) {
        exit_summary::change(|summary| summary.note(&late.sentence()));
        Sink::global().write(&Record::Late(late));
    }
}

/// Returns the leaks of one check that were freed late, and the time of the last free.
fn late(leaked: &Leaked, frees: &FxHashMap<u64, LoggedFree>) -> Option<Late> {
    let of_check = leaked.records.iter().filter_map(|it| frees.get(it));
    let frees: Vec<&LoggedFree> = of_check.filter(|it| it.at >= leaked.at).collect();
    let last = frees.iter().map(|free| free.at).max()?;
    let late = last.saturating_duration_since(leaked.at).as_millis();
    Some(Late {
        test: leaked.test.clone(),
        file: leaked.file.clone(),
        line: leaked.line,
        count: frees.len() as u64,
        bytes: total(frees.iter().map(|it| it.record.made.bytes)),
        late_ms: u64::try_from(late).unwrap_or(u64::MAX),
    })
}
