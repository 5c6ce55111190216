//! Limits on the memory that a test uses while it runs, whether or not the test frees it.
//!
//! The test fails if every run exceeds a limit, or if two of three runs do, including the last. If
//! only the first run exceeds a limit, one-time set-up was the cause. If other code in the process
//! could have changed a reserve in any run, a reserve above its limit is only noted.

use std::collections::BTreeSet;

use super::finding::{Found, confirmation, repeats};
use super::input::{CheckInput, RunInput};
use super::limits::UsageOverBudget;
use super::peaks::{call, reusable, shares};
use super::usage::{LayerName, LayerUsage};
use crate::ledger::{Amount, Kind};
use crate::report::{Budget, Finding, FindingKind, Limit, Share, When};
use crate::units::exact_size;

/// The largest number of source lines that a finding lists.
const NAMED: usize = 10;

/// Returns the limits that any run exceeded, each listed once.
fn exceeded(input: &CheckInput) -> Vec<&UsageOverBudget> {
    let mut known: Vec<&UsageOverBudget> = Vec::new();
    for over in input.judged_runs().iter().flat_map(|run| &run.over_budget) {
        if !known.iter().any(|known| known.is_like(over)) {
            known.push(over);
        }
    }
    known
}

/// Whether this is a reserve to which other code in the process could have contributed.
fn is_shared(over: &UsageOverBudget, input: &CheckInput) -> bool {
    let mut runs = input.judged_runs().iter();
    over.limit == Limit::MaxReserved && runs.any(|run| run.others.may_have_moved_sums())
}

/// Returns notes about reserves that exceeded a limit while other code in the process could have
/// changed them.
pub(crate) fn shared(input: &CheckInput) -> impl Iterator<Item = String> {
    let shared = exceeded(input).into_iter();
    let shared = shared.filter(move |over| is_shared(over, input));
    shared.map(|over| {
        let pool = over.pool.map(|pool| pool.to_string());
        format!(
            "{} on {} reserved up to {} more than before the test, above the budget of {}; this \
             was not judged, because something outside this check may have reserved it",
            pool.unwrap_or_else(|| over.layer.to_string()),
            over.place,
            exact_size(over.reached),
            exact_size(over.allowed),
        )
    })
}

/// Returns a finding for each budget that the runs exceeded.
pub(crate) fn findings(input: &CheckInput) -> Vec<Found> {
    let runs = input.judged_runs();
    let mut known = exceeded(input);
    known.retain(|over| !is_shared(over, input));
    let finding = |over: &&UsageOverBudget| {
        let of_run = |run: &RunInput| {
            let mut all = run.over_budget.iter();
            all.find(|other| other.is_like(over)).cloned()
        };
        let of_runs: Vec<_> = runs.iter().map(of_run).collect();
        finding(&of_runs, input)
    };
    known.iter().filter_map(finding).map(Found::sum).collect()
}

/// Whether only the second of two runs exceeds a limit, so that a third run must decide.
pub(crate) fn is_undecided(input: &CheckInput) -> bool {
    let [first, second] = input.judged_runs() else {
        return false;
    };
    let is_new = |over: &UsageOverBudget| !first.over_budget.iter().any(|it| it.is_like(over));
    let mut judged = second.over_budget.iter();
    judged.any(|over| is_new(over) && !is_shared(over, input))
}

/// Returns the finding for one limit, from the usage of each run that exceeded it.
fn finding(of_runs: &[Option<UsageOverBudget>], input: &CheckInput) -> Option<Finding> {
    let in_runs: Vec<bool> = of_runs.iter().map(Option::is_some).collect();
    let rounds = input.facts.rounds > 1;
    let mut exceeding = (of_runs.iter().zip(input.judged_runs()))
        .filter_map(|(over, run)| Some((over.as_ref()?, run)));
    let (over, run) = match rounds {
        true => exceeding.max_by_key(|(over, _)| over.reached),
        false => exceeding.next(),
    }?;
    let kind = match rounds || in_runs.len() == 1 || repeats(&in_runs) {
        true => FindingKind::OverBudget,
        false => FindingKind::FirstUse,
    };
    let amount = match over.limit {
        Limit::MaxAllocationCount => |share: &Share| share.count,
        _ => |share: &Share| share.bytes,
    };
    let shares = shares(&over.sites, run, &input.names, NAMED, false, amount);
    // A line may have several call sites. The largest of them represents the line.
    let mut sites = over
        .sites
        .iter()
        .map(|site| input.names.site(site.stack, Kind::Linear));
    let site = sites.find(|site| {
        shares
            .first()
            .is_some_and(|share| share.at == site.location())
    });
    let last = of_runs.last().and_then(Option::as_ref);
    let last = last.filter(|_| kind == FindingKind::OverBudget && !rounds);
    Some(Finding {
        pool: over.pool,
        count: 1,
        bytes: match over.limit {
            Limit::MaxAllocationCount => 0,
            _ => over.reached,
        },
        confirmed: last.and_then(|last| {
            let reached = Amount {
                count: 1,
                bytes: last.reached,
            };
            confirmation(&in_runs, reached)
        }),
        budget: Some(Budget {
            limit: over.limit,
            allowed: over.allowed,
            reached: over.reached,
            when: when(over, run),
            shares,
            reusable: reusable(&over.in_turn, &input.names),
        }),
        ..Finding::new(kind, over.layer, over.place, site.unwrap_or_default())
    })
}

/// Returns which call of the run reached the peak.
fn when(over: &UsageOverBudget, run: &RunInput) -> Option<When> {
    let call = Some(call(run, over.peak_at)).filter(|call| *call != 0)?;
    Some(When {
        first: call,
        last: call,
        of: run.calls().max(call),
    })
}

/// Returns a note about limits that cannot apply, because nothing was reported in their layer. A
/// probe alone reads what an allocator has reserved, but knows none of its allocations.
pub(crate) fn unbound(input: &CheckInput) -> Option<String> {
    let limits = &input.facts.budget;
    let layer = limits.layer;
    let usages = input.runs.iter().flat_map(|run| [&run.baseline, &run.end]);
    let usages = usages.flat_map(|usage| &usage.layers);
    let of_layer: Vec<_> = usages.filter(|it| it.name.layer() == layer).collect();
    let is_reported = |usage: &&LayerUsage| match usage.name {
        LayerName::Probe(_) => usage.reported.is_some(),
        LayerName::Layer(_) | LayerName::Pool(_) => true,
    };
    // The usage of an allocator that ended with its device, or whose cache is empty, is not read.
    let is_bound = |limit| {
        let is_read = match limit {
            Limit::MaxReserved => !of_layer.is_empty(),
            _ => of_layer.iter().any(is_reported),
        };
        is_read || input.runs.iter().any(|run| run.bound.contains(&limit))
    };
    let unbound = limits.set().map(|(limit, _)| limit);
    let unbound: Vec<_> = unbound.filter(|limit| !is_bound(*limit)).collect();
    if unbound.is_empty() {
        return None;
    }
    let names: Vec<_> = unbound.iter().map(|limit| limit.name()).collect();
    let names = names.join(" and ");
    if !of_layer.is_empty() {
        return Some(format!(
            "{names} had no effect, because only a probe reads {layer}, and its allocations are not \
             reported"
        ));
    }
    let all = input.runs.iter().flat_map(|run| &run.end.layers);
    let others: BTreeSet<String> = all.map(|usage| usage.name.to_string()).collect();
    let others: Vec<String> = others.into_iter().collect();
    (!others.is_empty()).then(|| {
        format!(
            "{names} had no effect, because nothing was allocated in the layer {layer}; the layers \
             that were seen are {}",
            others.join(", ")
        )
    })
}
