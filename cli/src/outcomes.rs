//! What a check and a finding mean for a run.

use gpu_leak_check::report::model::{CheckStatus, Finding, FindingKind, Outcome, Report};

/// What a check meant for its test; by the default policy, where the file does not say.
pub(crate) fn outcome(report: &Report) -> Outcome {
    report.outcome.unwrap_or_else(|| by_default(report.status))
}

/// What one finding of a check meant for its test.
pub(crate) fn outcome_of(finding: &Finding, report: &Report) -> Outcome {
    if finding.is_unconfirmed() {
        // It is why its check is inconclusive, unless another finding fails that.
        return match report.status.is_unmeasured() {
            true => outcome(report),
            false => Outcome::Pass,
        };
    }
    let alone = CheckStatus::Found(finding.kind);
    // One policy is for all that fails, and the report's own status is the worst of it.
    if alone == report.status || finding.kind.is_failure() {
        outcome(report)
    } else {
        by_default(alone)
    }
}

fn by_default(status: CheckStatus) -> Outcome {
    match status {
        CheckStatus::Found(FindingKind::FirstUse | FindingKind::Deferred) => Outcome::Warn,
        status if status.is_failure() => Outcome::Fail,
        _ => Outcome::Pass,
    }
}
