//! Records what a nested check has decided, for the checks around it. Leaks that made the test fail
//! are not passed on to those checks. An object that the nested check allows to stay may stay in
//! all of them.
//!
//! The checks around a nested check judge it as if its body had run once, because the program did
//! not ask for the further runs that confirm a finding. What a further run did, tried to free, or
//! left in addition to the first run is evidence only for the nested check. But a later run may
//! have freed what the first run left and left something in its place, such as the value that the
//! body returns. Such a replacement belongs to the checks around the nested check.

use std::hash::Hash;

use rustc_hash::{FxHashMap, FxHashSet};

use super::collect::is_live;
use super::scopes::open::{current, process};
use super::scopes::tree::{self, FailureId, Lineage, NestedDecision};
use crate::judge::suppressions::Suppression;
use crate::judge::{
    CheckResult, FailedSum, LayerName, LayerUsage, LiveRecord, Ownership, RunInput,
};
use crate::ledger::{self, Kind, Layer, Place, Record, ScopeId, StackId};
use crate::report::check_report::{AllowedBy, Finding};

/// Records the decisions of the check whose last run had this scope, and removes the check from the
/// tree. `failure` is the failure with which the check failed its test, and `entries` are the
/// entries that the check has applied.
pub(super) fn record(
    scope: ScopeId,
    result: &CheckResult,
    failure: Option<FailureId>,
    entries: &[Suppression],
) {
    if let Some(OuterCheck { outer, keeper }) = OuterCheck::of(scope) {
        let test = tree::check_around(outer).map(|it| it.test.clone());
        let is_of_process = keeper == outer;
        // The check around this one applies the same entry of the file to all blocks together, so
        // that the entry's limits hold for the whole test.
        let is_applied_again = |by: &AllowedBy| {
            let mut entries = entries.iter();
            let entry = entries.find(|it| it.is_in_file() && it.stands_in == by.stands_in);
            let is_for_test =
                |entry: &Suppression| test.as_deref().is_some_and(|test| entry.is_for(test));
            entry.is_some_and(|entry| is_of_process || is_for_test(entry))
        };
        let mut decisions = Vec::new();
        let mut sums = Vec::new();
        for (finding, records) in result.findings.iter().zip(&result.records) {
            let failure = failure.filter(|_| finding.is_failure());
            let of_record = match (&finding.allowed_by, failure) {
                (Some(by), _) if is_applied_again(by) => continue,
                (Some(by), _) => NestedDecision::Allowed(by.clone()),
                (None, Some(failure)) => NestedDecision::Failed(failure),
                (None, None) => continue,
            };
            // An exceeded limit is not about anything that is left.
            if let (NestedDecision::Failed(failure), []) = (&of_record, &records[..])
                && finding.budget.is_none()
            {
                sums.push((Some(*failure), failed_sum(finding)));
            }
            decisions.extend(records.iter().map(|record| (*record, of_record.clone())));
        }
        tree::decide(keeper, decisions, sums, failure.is_some());
    }
    tree::forget(scope);
}

/// The check around a nested check.
struct OuterCheck {
    /// Its scope.
    outer: ScopeId,
    /// The scope for which the decisions of the nested check are kept.
    keeper: ScopeId,
}

impl OuterCheck {
    /// Returns the check around the check whose last run had this scope. A check inside a process
    /// that is judged as a whole is not nested, and is removed at its end, so the process itself
    /// keeps its decisions.
    fn of(scope: ScopeId) -> Option<Self> {
        match current() {
            Some(outer) => Some(Self {
                outer,
                keeper: scope,
            }),
            None => process().map(|outer| Self {
                outer,
                keeper: outer,
            }),
        }
    }
}

fn failed_sum(finding: &Finding) -> FailedSum {
    // A finding about reserved memory has no resource.
    let is_reserve = finding.resource.is_none();
    FailedSum {
        layer: match &finding.pool {
            Some(pool) => LayerName::Pool(*pool),
            None => LayerName::Probe(finding.layer),
        },
        place: finding.place,
        allocated: if is_reserve { 0 } else { finding.bytes },
        reserved: if is_reserve { finding.bytes } else { 0 },
    }
}

/// Hides what only the further runs of a nested check have left from the checks around it. `scope`
/// is the scope of the nested check's last run, and `runs` contains all of its runs. Each run
/// except the first confirms findings.
pub(super) fn leave_out_further_runs(scope: ScopeId, runs: &[RunInput]) {
    let around = OuterCheck::of(scope);
    let (Some(around), [first, second, ..], Some(last)) = (around, runs, runs.last()) else {
        return;
    };
    let live: FxHashSet<u64> = last.live.iter().map(|live| live.record.sequence).collect();
    let freed = own(first).filter(|record| !live.contains(&record.sequence));
    // A further run also left the records that made a check inside it fail.
    let lineage = Lineage::of(scope);
    let is_left = |live: &&LiveRecord| match live.owner {
        Ownership::HandedOver => false,
        Ownership::Another => lineage.has(live.record.made.caller.scope),
        _ => true,
    };
    let left = last.live.iter().filter(is_left).map(|live| &live.record);
    let left = left.filter(|record| record.sequence >= second.began);
    // The last run left the value that the body returned.
    let (again, instead) = divide(left.rev().collect(), freed.collect());
    for record in instead.into_iter().filter(|record| is_live(record)) {
        let ledger = ledger::live();
        ledger.between_events(|| ledger.meters().adopt(record, around.outer));
    }
    let again = again.iter().map(|record| record.sequence).collect();
    // The owner of a sum is known only if nothing else could change it.
    let sums = match runs.iter().any(|run| run.others.may_have_moved_sums()) {
        true => Vec::new(),
        false => raised_since(first, last),
    };
    tree::left_again(around.keeper, again, sums);
}

/// Returns the live records at the end of a run for which the check is responsible.
fn own(run: &RunInput) -> impl Iterator<Item = &Record> {
    let is_own =
        |live: &&LiveRecord| !matches!(live.owner, Ownership::HandedOver | Ownership::Another);
    run.live.iter().filter(is_own).map(|live| &live.record)
}

/// Divides the records that further runs `left` into those that they left in addition to the first
/// run and those that replace a record of the first run that was `freed`. Replacements with the
/// same call site and size are preferred, then those with the same call site. Among equal ones, the
/// first are taken.
fn divide<'a>(
    mut left: Vec<&'a Record>,
    mut freed: Vec<&'a Record>,
) -> (Vec<&'a Record>, Vec<&'a Record>) {
    type Key = ((Layer, Place, Kind), Option<(StackId, Option<u64>)>);
    let class = |it: &Record| (it.made.layer, it.made.place, it.made.kind);
    let keys: [&dyn Fn(&Record) -> Key; 3] = [
        &|it| (class(it), Some((it.made.caller.stack, Some(it.made.bytes)))),
        &|it| (class(it), Some((it.made.caller.stack, None))),
        &|it| (class(it), None),
    ];
    let mut instead = Vec::new();
    for key in keys {
        let mut missing = counted(freed.iter().map(|record| key(record)));
        let mut replaced = FxHashMap::default();
        let found = left.extract_if(.., |record| {
            let key = key(record);
            let is_found = take(&mut missing, &key);
            *replaced.entry(key).or_default() += usize::from(is_found);
            is_found
        });
        instead.extend(found);
        freed.retain(|record| !take(&mut replaced, &key(record)));
    }
    (left, instead)
}

fn counted<K: Eq + Hash>(keys: impl Iterator<Item = K>) -> FxHashMap<K, usize> {
    let mut counts = FxHashMap::default();
    keys.for_each(|key| *counts.entry(key).or_default() += 1);
    counts
}

/// Takes one from the count of `key`. Returns false if the count is 0.
fn take<K: Eq + Hash>(counts: &mut FxHashMap<K, usize>, key: &K) -> bool {
    let count = counts.get_mut(key).filter(|count| **count != 0);
    count.map(|count| *count -= 1).is_some()
}

/// Returns by how much each sum rose from the end of one run to the end of a later one.
fn raised_since(first: &RunInput, last: &RunInput) -> Vec<FailedSum> {
    let raised = last.end.layers.iter().map(|usage| FailedSum {
        layer: usage.name.clone(),
        place: usage.place,
        allocated: first.end.rise_to(usage, LayerUsage::unreported),
        reserved: first.end.rise_to(usage, LayerUsage::reserve),
    });
    let raised = raised.filter(|sum| (sum.allocated, sum.reserved) != (0, 0));
    raised.collect()
}
