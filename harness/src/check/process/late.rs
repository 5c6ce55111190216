//! What is freed after the verdict. The verdict stays; the run's summary and file say how late it
//! was, for a longer `settle` may be all that is missing.

use std::sync::{Mutex, Once, PoisonError};
use std::time::Instant;

use super::summary;
use crate::check::measure::Measured;
use crate::device::exit;
use crate::judge::{HeldKey, What};
use crate::ledger::{self, ScopeId};
use crate::report::Sink;
use crate::report::json::Late;
use crate::report::model::{CheckStatus, FindingKind, Report};

/// A check that found leaks.
#[derive(Debug)]
struct Told {
    test: String,
    file: String,
    line: u32,
    at: Instant,
    /// When its first run began, in the order of the ledger's events.
    began: u64,
    scopes: Vec<ScopeId>,
    held: Vec<HeldKey>,
}

static TOLD: Mutex<Vec<Told>> = Mutex::new(Vec::new());

/// Looks out for the release of what `report` tells of: left by `first`, by the run that confirmed
/// it, or by another of `scopes` at the same place.
pub(crate) fn await_release(
    report: &Report,
    first: &Measured,
    second: Option<&Measured>,
    scopes: &[ScopeId],
) {
    if report.status != CheckStatus::Found(FindingKind::Leaked) {
        return;
    }
    // Not the records that are live now: one of them may be given back before it is looked for.
    ledger::live().await_release(scopes);
    // The second run may have come to the same line by other calls.
    let held = first
        .held
        .iter()
        .chain(second.iter().flat_map(|run| &run.held));
    TOLD.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(Told {
            test: report.test.clone(),
            file: report.file.clone(),
            line: report.line,
            at: Instant::now(),
            began: first.began,
            scopes: scopes.to_vec(),
            held: held.map(|held| held.key.clone()).collect(),
        });
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Of handlers, the newest is first: the summary is told after it.
        summary::tell_at_exit();
        exit::at_exit(tell);
    });
}

/// Amends the summary, and the run's file.
fn tell() {
    let all = std::mem::take(&mut *TOLD.lock().unwrap_or_else(PoisonError::into_inner));
    for late in all.iter().filter_map(late) {
        summary::note(&late.told());
        Sink::global().late(late);
    }
}

/// What was freed of one check's leaks, and when the last of it.
fn late(told: &Told) -> Option<Late> {
    let released = ledger::live().released(|record| {
        record.sequence >= told.began
            && told.scopes.contains(&record.made.caller.scope)
            && told
                .held
                .contains(&HeldKey::of(record, What::Live(record.made.kind)))
    });
    let last = released.iter().map(|(_, at)| *at).max()?;
    let late = last.saturating_duration_since(told.at).as_millis();
    Some(Late {
        test: told.test.clone(),
        file: told.file.clone(),
        line: told.line,
        count: released.len() as u64,
        bytes: released.iter().map(|(record, _)| record.made.bytes).sum(),
        late_ms: u64::try_from(late).unwrap_or(u64::MAX),
    })
}
