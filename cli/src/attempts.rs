//! Tests that a runner tried again: what each attempt came to.

use gpu_leak_check::report::model::CheckStatus;

use crate::run::{Process, Run};

/// A sentence for each test whose attempts differ: the last one decides, and this says what the
/// others were.
pub(crate) fn sentences(run: &Run) -> Vec<String> {
    let mut found: Vec<_> = run
        .processes
        .iter()
        .filter_map(|last| flaky(&run.attempts_before(last), last))
        .collect();
    found.sort_unstable();
    found
}

/// `flaky: train::frees: leaked in attempt 1, clean in attempt 2`
fn flaky(earlier: &[&Process], last: &Process) -> Option<String> {
    let attempts: Vec<_> = earlier.iter().copied().chain([last]).collect();
    let came_to: Vec<_> = attempts.iter().filter_map(|it| worst(it)).collect();
    let (_, now) = *came_to.last()?;
    if came_to.iter().all(|(_, status)| *status == now) {
        return None;
    }
    let (test, _) = came_to[0];
    let parts: Vec<_> = came_to
        .iter()
        .zip(1..)
        .map(|((_, status), number)| format!("{} in attempt {number}", status.name()))
        .collect();
    Some(format!("flaky: {test}: {}", parts.join(", ")))
}

/// The worst that an attempt came to, and its test.
fn worst(attempt: &Process) -> Option<(&str, CheckStatus)> {
    let reports = attempt.reports.iter();
    let reports = reports.map(|report| (report.test.as_str(), report.status));
    let aborted = attempt.aborted.iter();
    let aborted = aborted.map(|began| (began.test.as_str(), CheckStatus::Aborted));
    aborted.chain(reports).min_by_key(|(_, status)| *status)
}
