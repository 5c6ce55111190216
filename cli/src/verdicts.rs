//! What each verdict means for a run.

use gpu_leak_check::report::model::Verdict;

/// Whether it is a finding that fails: the kinds that fail a test unless its policy says otherwise.
pub(crate) const fn fails(verdict: Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Leaked
            | Verdict::FailedFree
            | Verdict::Retained
            | Verdict::Grew
            | Verdict::OverBudget
            | Verdict::Aborted
    )
}

/// Whether the check could not see.
pub(crate) const fn is_unmeasured(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::NotMeasured | Verdict::Inconclusive)
}
