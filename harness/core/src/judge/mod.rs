//! Judges a check from the data that its session collected. The judgement is pure: nothing here
//! calls a driver, reads a clock or inspects the process.
//!
//! [`judge`] applies the rules in order. Each rule has its own file, which begins by stating the
//! rule.

mod advice;
mod allowed;
mod broken_context;
mod budget;
mod chronology;
mod confirm;
mod diff;
mod failed_allocations;
mod failed_free;
mod finding;
mod group;
mod growth;
mod input;
mod kept_alive;
mod limits;
mod names;
mod pairs;
mod passages;
mod peaks;
mod reserve;
mod rise;
mod segments;
mod siblings;
mod status;
mod sums;
pub mod suppressions;
mod tables;
#[cfg(test)]
mod tests;
pub mod timeline;
mod trend;
mod usage;

pub use advice::meant_to_stay;
pub use chronology::MOST_IN_ORDER;
pub use input::{
    CheckInput, ContextError, Expect, Facts, FailedSum, Freed, FreedAt, FreedInside, LiveRecord,
    Others, Ownership, RunInput, Subject, Untraced,
};
pub use limits::{Limits, UsageOverBudget};
pub use names::{DeviceName, NameTable};
pub use passages::{LINES_AFTER, LINES_BEFORE, passage};
pub use peaks::{graph_memory, peaks};
pub use reserve::is_more_reserved;
pub use segments::{Segment, SegmentMap};
pub use siblings::shown_up_to;
pub use tables::device_tables;
pub use trend::{ENOUGH as ENOUGH_SNAPSHOTS, Trend};
pub use usage::{ContextLimits, DeviceUsage, LayerName, LayerUsage, Usage, places, rounding};

use self::diff::{Diff, diff, is_own};
use self::finding::Found;
use self::group::Group;
use self::growth::FEWEST_ROUNDS;
use crate::ledger::{Amount, Layer, StackId};
use crate::report::{CheckStatus, Code, Finding, Limit, PassageKind, Reason};

/// The result of a check.
#[derive(Clone, Debug)]
pub struct CheckResult {
    /// The kind of the worst finding or, if no finding decides the result, another status.
    pub status: CheckStatus,
    /// The reason for `inconclusive`, `not-measured` or `unexpected`.
    pub reason: Option<Reason>,
    /// The findings: first those that explain others, then sorted by kind with the worst first,
    /// then with the program's own code first, then by size with the largest first.
    pub findings: Vec<Finding>,
    /// For each finding, the sequence numbers of its records.
    pub records: Vec<Vec<u64>>,
    /// Notes that do not fail the test, one sentence each.
    pub notes: Vec<String>,
    /// A sentence about a budget that had no effect because no allocation was reported in its
    /// layer.
    pub unbound: Option<String>,
}

/// Judges one check.
pub fn judge(input: &CheckInput) -> CheckResult {
    let mut diff = diff(input);
    let unbound = budget::unbound(input);
    let mut notes = notes(input);
    notes.extend(unbound.clone());
    let failed_frees = failed_free::findings(input, &mut diff);
    let missed_frees = input.was_partly_intercepted() && !input.facts.whole_program;
    if missed_frees {
        notes.extend(remove_resources_of_driver(&mut diff));
    }
    let mut found = match input.facts.rounds > 1 {
        true => growth::findings(&diff.groups, input),
        false => confirm::findings(&diff.groups, input),
    };
    siblings::add(&mut found, input);
    // A failed free explains a leak better than the calls of the allocating function do.
    for found in found.iter_mut().filter(|_| !failed_frees.is_empty()) {
        found
            .finding
            .passages
            .retain(|it| it.what != PassageKind::Called);
    }
    failed_free::note_frees_inside(&mut found, input);
    found.extend(confirm::until_shutdown(&diff.freed_by_shutdown, input));
    if let Some(trend) = &input.trend {
        growth::mark(trend, &mut found);
    }
    allowed::kept_for_the_process(input, &mut found);
    // This comes before leaks are combined, because memory that a library keeps for itself does not
    // cause other leaks.
    allowed::recycled(&mut found);
    kept_alive::fold(&mut found);
    found.extend(sums::findings(input));
    reserve::note_what_is_pinned(input, &mut found);
    let mut others = reserve::findings(input);
    if missed_frees {
        // A pool of the driver may hold more because of a missed free.
        others.retain(|found| found.finding.layer != Layer::DRIVER);
    }
    notes.extend(reserve::notes(input));
    others.extend(allowed::by_the_code(&diff, input));
    let mut budgets = budget::findings(input);
    if missed_frees {
        notes.extend(remove_peaks_of_driver(&mut budgets));
    }
    others.extend(budgets);
    others.extend(failed_frees);
    let all = found.iter_mut().chain(&mut others);
    let mut all: Vec<_> = all.map(|it| &mut it.finding).collect();
    let test = &input.subject.test;
    let expired = suppressions::apply(&input.suppressions, input.today, test, &mut all);
    notes.extend(expired);
    // The tolerance is applied after the suppressions, because allowed leaks do not use up the
    // tolerance. The other findings are not about bytes that stay allocated, so they are added
    // afterwards.
    notes.extend(allowed::tolerate(input.facts.tolerance, &mut found));
    found.extend(others);
    let unmet = input
        .facts
        .expect
        .and_then(|expect| allowed::expected(expect, &mut found).err());
    if input.could_not_repeat() && input.facts.rounds <= 1 {
        for found in &mut found {
            status::cannot_be_confirmed(&mut found.finding);
        }
    }
    finding::sort(&mut found, input);
    kept_alive::mark_consequences(&mut found);
    let (findings, records): (Vec<_>, Vec<_>) =
        found.into_iter().map(|it| (it.finding, it.records)).unzip();
    let (mut status, mut reason) = status::status(input, &diff, &findings, &mut notes);
    // If some calls were missed, a record that looks live may have been freed. If the body failed,
    // it may not have reached the expected leak.
    if let Some(what) = unmet
        && !status.is_unmeasured()
        && input.first().as_expected
    {
        status = CheckStatus::Unexpected;
        reason = Some(Reason::new(
            Code::Expectation,
            what,
            "find out what has changed, or change the `expect` option",
        ));
    }
    CheckResult {
        status,
        reason,
        findings,
        records,
        notes,
        unbound,
    }
}

/// Removes the driver's resources, whose frees may have been missed. Returns a note about them.
fn remove_resources_of_driver(diff: &mut Diff) -> Option<String> {
    let is_of_driver = |group: &Group| group.key.class.layer == Layer::DRIVER;
    diff.allowed.retain(|(_, group)| !is_of_driver(group));
    let removed = diff.groups.extract_if(.., |group| is_of_driver(group));
    let sum: Amount = removed.map(|group| group.kept_in_all().amount).sum();
    (!sum.is_zero()).then(|| {
        format!(
            "the driver's resources were not judged, because a free may have been missed: {}",
            sum.text("resource")
        )
    })
}

/// Removes the exceeded limits on the driver's peaks, and returns notes about them. Missed frees
/// make a peak too high, but they do not affect a sum of all allocations.
fn remove_peaks_of_driver(budgets: &mut Vec<Found>) -> impl Iterator<Item = String> {
    let is_peak = |finding: &Finding| {
        let exceeded = finding.budget.as_ref();
        finding.layer == Layer::DRIVER && exceeded.is_some_and(|it| it.limit == Limit::MaxAllocated)
    };
    let removed = budgets.extract_if(.., move |it| is_peak(&it.finding));
    removed.map(|it| {
        format!(
            "{} was exceeded on {}, but this was not judged, because a free may have been missed",
            Limit::MaxAllocated.name(),
            it.finding.place
        )
    })
}

/// Returns the resources that a program currently holds, as findings for its [`Trend`].
pub fn held(input: &CheckInput) -> Vec<Finding> {
    let found = confirm::findings(&diff(input).groups, input);
    found.into_iter().map(|found| found.finding).collect()
}

/// Whether a run left anything that a free in flight could still free. If so, the check waits for
/// such frees before it reads the figures that are judged. `is_cudas_own` says whether one of
/// CUDA's own libraries made the call with this backtrace.
pub fn is_anything_left(run: &RunInput, is_cudas_own: impl Fn(StackId) -> bool) -> bool {
    let is_left = |live: &LiveRecord| {
        matches!(live.owner, Ownership::Session | Ownership::Foreign(_))
            && is_own(live, run, &is_cudas_own)
    };
    // The record of a resource whose free is in flight is not live, so the figures of pools and
    // probes are also compared.
    let rose = |usage: &LayerUsage| {
        let is_of_ledger = matches!(usage.name, LayerName::Layer(_));
        !is_of_ledger && run.baseline.rise_to(usage, |it| it.allocated) != 0
    };
    run.live.iter().any(is_left)
        || !run.anomalies.is_empty()
        || is_more_reserved(run)
        || run.end.layers.iter().any(rose)
}

/// Whether the body has to run once more before the check can be judged.
pub fn needs_another_run(input: &CheckInput) -> bool {
    let facts = &input.facts;
    let runs = input.runs.len();
    // In a broken context, the body could only fail again.
    let is_valid =
        !input.could_not_repeat() && input.first().as_expected && input.broken_context().is_none();
    if !is_valid {
        return false;
    }
    if facts.rounds > 1 {
        // A sum that only a probe counts, or a reserve, may grow as well.
        let rose = |run: &RunInput| is_more_reserved(run) || sums::rose(run);
        let may_grow =
            || growth::may_still_grow(&diff(input).groups) || input.runs.iter().all(rose);
        return runs < FEWEST_ROUNDS || (runs < facts.rounds as usize && may_grow());
    }
    if !facts.confirm || runs >= confirm::MAX_RUNS {
        return false;
    }
    let mut diff = diff(input);
    match runs {
        1 => {
            let failed = failed_free::findings(input, &mut diff);
            let first = input.first();
            let is_left = !diff.groups.is_empty() || !failed.is_empty();
            is_left
                || !first.over_budget.is_empty()
                || !sums::findings(input).is_empty()
                || !reserve::findings(input).is_empty()
        }
        _ => is_undecided(input, &diff),
    }
}

/// Whether two runs differ in a way that only a third run can explain.
fn is_undecided(input: &CheckInput, diff: &Diff) -> bool {
    confirm::is_undecided(&diff.groups)
        || sums::is_undecided(input)
        || reserve::is_undecided(input)
        || budget::is_undecided(input)
}

/// Returns notes about the runs. A note never fails the test.
fn notes(input: &CheckInput) -> Vec<String> {
    let first = input.first();
    let mut notes = Vec::new();
    if first.freed_earlier.count != 0 {
        notes.push(format!(
            "the test freed resources that were allocated before it ({}); they are not offset \
             against leaks",
            first.freed_earlier.text("object")
        ));
    }
    if first.handed_over.count != 0 {
        notes.push(format!(
            "the test handed over {}",
            first.handed_over.text("object")
        ));
    }
    if input.runs.iter().any(|run| run.others.checks) && !first.live.is_empty() {
        notes.push(
            "other checks ran at the same time, so the tables include what they allocated"
                .to_owned(),
        );
    }
    if input.runs.iter().any(|run| run.is_capturing) {
        notes.push(
            "a stream was being captured when a run began or ended, so what CUDA's pools keep in \
             reserve was not judged"
                .to_owned(),
        );
    }
    notes.extend(failed_allocations::notes(input));
    notes.extend(budget::shared(input));
    notes
}
