//! What each verdict means for a run.

use gpu_leak_check::report::model::{Finding, Outcome, Report, Verdict};

/// What a check meant for its test; by the default policy, where the file does not say.
pub(crate) fn outcome(report: &Report) -> Outcome {
    report.outcome.unwrap_or_else(|| by_default(report.verdict))
}

/// What one finding of a check meant for its test.
pub(crate) fn outcome_of(finding: &Finding, report: &Report) -> Outcome {
    // One policy is for all that fails, and the report's own verdict is the worst of it.
    if finding.verdict == report.verdict || finding.verdict.is_failure() {
        outcome(report)
    } else {
        by_default(finding.verdict)
    }
}

fn by_default(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::FirstUse => Outcome::Warn,
        verdict if verdict.is_failure() => Outcome::Fail,
        _ => Outcome::Pass,
    }
}

/// Whether the check could not see.
pub(crate) const fn is_unmeasured(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::NotMeasured | Verdict::Inconclusive)
}
