//! Records what a nested check has decided, for the checks around it. Leaks that made the test fail
//! are not passed on to those checks. An object that the nested check allows to stay may stay in
//! all of them.

use super::scopes::open::current;
use super::scopes::tree::{self, FailureId, NestedDecision};
use crate::judge::suppressions::Suppression;
use crate::judge::{CheckResult, FailedSum, LayerName};
use crate::ledger::ScopeId;
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
    if let Some(outer) = current() {
        let test = tree::check_around(outer).map(|it| it.test.clone());
        // The check around this one applies the same entry of the file to all blocks together, so
        // that the entry's limits hold for the whole test.
        let is_applied_again = |by: &AllowedBy| {
            let mut entries = entries.iter();
            let entry = entries.find(|it| it.is_in_file() && it.stands_in == by.stands_in);
            let test = test.as_deref();
            entry.is_some_and(|entry| test.is_some_and(|test| entry.is_for(test)))
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
            if let (NestedDecision::Failed(failure), []) = (&of_record, &records[..]) {
                sums.push((*failure, failed_sum(finding)));
            }
            decisions.extend(records.iter().map(|record| (*record, of_record.clone())));
        }
        tree::decide(scope, decisions, sums);
    }
    tree::forget(scope);
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
