//! The kind of a finding, the status of a check with the reason why it has no result, and the
//! outcome for its test.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

named! {
    /// The kind of a finding, worst first.
    #[derive(Default)]
    #[serde(rename_all = "kebab-case")]
    #[non_exhaustive]
    pub enum FindingKind {
        /// Something that was created still exists.
        #[default]
        Leaked = "leaked",
        /// A free or destroy call returned an error.
        FailedFree = "failed-free",
        /// An allocator holds more than before, and nothing live explains it.
        Retained = "retained",
        /// More is held after each round than after the previous one.
        Grew = "grew",
        /// A limit of the test was exceeded.
        OverBudget = "over-budget",
        /// Something was created once, kept, and not created again.
        FirstUse = "first-use",
        /// One run of the body left something that a later run freed.
        Deferred = "deferred",
        /// Something is still held, and it is allowed to stay.
        Allowed = "allowed",
    }
}

impl FindingKind {
    /// Whether a finding of this kind fails a test unless `on_leak` says otherwise.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        CheckStatus::Found(self).is_failure()
    }
}

/// The result of a check: the kind of its worst finding or, if no finding decides it, another
/// status. In a file, it is one word, such as `not-measured`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CheckStatus {
    /// The check has no reliable result.
    Inconclusive,
    /// Nothing could be measured.
    #[default]
    NotMeasured,
    /// The test left something other than what it is expected to leave.
    Unexpected,
    /// The process ended inside the test.
    Aborted,
    /// Everything was freed.
    Clean,
    /// There are findings, and the worst is of this kind.
    // serde requires untagged variants to be last.
    #[serde(untagged)]
    Found(FindingKind),
}

impl CheckStatus {
    /// Returns the effect of this status on a test unless the policy of the run says otherwise.
    #[must_use]
    pub const fn default_outcome(self) -> Outcome {
        self.row().1
    }

    /// Whether this status fails a test unless `on_leak` says otherwise.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self.default_outcome(), Outcome::Fail)
    }

    /// Returns its name: `failed-free`, `not-measured`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// Whether the check could not see everything that it should have seen.
    #[must_use]
    pub const fn is_unmeasured(self) -> bool {
        matches!(self, Self::Inconclusive | Self::NotMeasured)
    }

    /// Returns the name of this status, its outcome and its rank: results that fail a test come
    /// first, then statuses of checks without a result, then the rest.
    const fn row(self) -> (&'static str, Outcome, u8) {
        match self {
            Self::Unexpected => ("unexpected", Outcome::Fail, 0),
            Self::Inconclusive => ("inconclusive", Outcome::Pass, 1),
            Self::NotMeasured => ("not-measured", Outcome::Pass, 2),
            Self::Aborted => ("aborted", Outcome::Fail, 3),
            Self::Clean => ("clean", Outcome::Pass, 5),
            Self::Found(kind) => match kind {
                FindingKind::Leaked
                | FindingKind::FailedFree
                | FindingKind::Retained
                | FindingKind::Grew
                | FindingKind::OverBudget => (kind.name(), Outcome::Fail, 0),
                FindingKind::FirstUse | FindingKind::Deferred => (kind.name(), Outcome::Warn, 4),
                FindingKind::Allowed => (kind.name(), Outcome::Pass, 4),
            },
        }
    }

    /// Returns the rank of this status and, among findings, of their kind.
    fn rank(self) -> (u8, Option<FindingKind>) {
        match self {
            Self::Found(kind) => (self.row().2, Some(kind)),
            _ => (self.row().2, None),
        }
    }
}

/// Orders statuses from the worst to the best, so the worst is the smallest.
impl Ord for CheckStatus {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for CheckStatus {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

named! {
    /// The outcome of a report for its test.
    #[serde(rename_all = "kebab-case")]
    pub enum Outcome {
        /// The test passes without a report.
        Pass = "pass",
        /// The test passes and the report is printed.
        Warn = "warn",
        /// The test fails.
        Fail = "fail",
    }
}

named! {
    /// All values of [`Reason::code`](crate::report::Reason::code). `cargo gpu-leak explain`
    /// explains each of them.
    #[serde(rename_all = "kebab-case")]
    #[non_exhaustive]
    pub enum Code {
        /// There is no driver or no device.
        NoGpu = "no-gpu",
        /// No call was intercepted, and the process uses a graphics API that is not watched.
        Backend = "backend",
        /// The driver was initialised before its calls could be intercepted.
        Unheard = "unheard",
        /// The program called a variant of a watched function that this release does not know, or a
        /// function that more drivers or layers provide than this release can distinguish.
        UnheardFunction = "unheard-function",
        /// A library was bound directly to the driver, bypassing the harness.
        UnheardLibrary = "unheard-library",
        /// The harness failed while it processed a call.
        HarnessFailed = "harness-failed",
        /// A context was broken before the check began, or the check broke it, and the rest could
        /// not be judged.
        Poisoned = "poisoned",
        /// The test used a caching allocator whose blocks only a probe could show.
        NoProbe = "no-probe",
        /// A sum that only a probe can read rose while another check ran, or while another test, or
        /// a thread that an earlier test left, could run.
        Shared = "shared",
        /// A further run of the body ended differently from the first, so the findings could not be
        /// confirmed.
        NotRepeatable = "not-repeatable",
        /// An allocator reported an allocation at an address that was still live, so it is unknown
        /// which of the two allocations a later free refers to.
        AmbiguousFree = "ambiguous-free",
        /// The test left something other than what its `expect` option says.
        Expectation = "expectation",
        /// The options of the test, the configuration file or a variable are wrong.
        Settings = "settings",
        /// The check was abandoned before it was complete.
        Unfinished = "unfinished",
        /// The process ended inside the check.
        ProcessEnded = "process-ended",
        /// Checks are switched off.
        Off = "off",
        /// A code that a later release wrote to a file. The reason's sentences explain it.
        #[serde(other)]
        Unknown = "unknown",
    }
}

// The sentences are in `judge/status.rs`, `judge/sums.rs` and, in the harness, mostly in
// `check/blind.rs`; CONTRIBUTING.md lists the other files.
/// Why a check has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Reason {
    /// A stable code, such as `no-gpu`, `poisoned` or `no-probe`. `cargo gpu-leak explain` explains
    /// each of them.
    #[cfg_attr(feature = "schemars", schemars(with = "String"))]
    pub code: Code,
    /// One sentence that describes the problem.
    pub what: String,
    /// One sentence that says what to do about the problem.
    pub remedy: String,
}

impl Reason {
    /// Creates a reason with this code.
    #[must_use]
    pub fn new(code: Code, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            code,
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CheckStatus, Code, FindingKind};

    /// Returns every status, worst first.
    fn all() -> Vec<CheckStatus> {
        let found = |fails: bool| {
            let kinds = FindingKind::ALL.iter().copied();
            kinds
                .filter(move |kind| kind.is_failure() == fails)
                .map(CheckStatus::Found)
        };
        let blind = [
            CheckStatus::Inconclusive,
            CheckStatus::NotMeasured,
            CheckStatus::Aborted,
        ];
        let unexpected = [CheckStatus::Unexpected].into_iter();
        let all = unexpected.chain(found(true)).chain(blind);
        let all = all.chain(found(false)).chain([CheckStatus::Clean]);
        all.collect()
    }

    #[test]
    fn a_status_is_written_to_a_file_by_its_name() {
        for status in all() {
            let word = serde_json::to_string(&status).unwrap();
            assert_eq!(word, format!("\"{}\"", status.name()));
            assert_eq!(serde_json::from_str::<CheckStatus>(&word).unwrap(), status);
        }
        for kind in FindingKind::ALL {
            let word = serde_json::to_string(kind).unwrap();
            assert_eq!(word, format!("\"{}\"", kind.name()));
        }
        assert!(serde_json::from_str::<CheckStatus>("\"fine\"").is_err());
    }

    #[test]
    fn a_status_is_a_key_of_a_map_in_a_file() {
        let counts: std::collections::BTreeMap<_, u64> = all().into_iter().zip(1..).collect();
        let text = serde_json::to_string(&counts).unwrap();
        let again: std::collections::BTreeMap<CheckStatus, u64> =
            serde_json::from_str(&text).unwrap();
        assert_eq!(again, counts);
    }

    #[test]
    fn the_worst_comes_first() {
        let mut sorted = all();
        sorted.reverse();
        sorted.sort();
        assert_eq!(sorted, all());
    }

    #[test]
    fn a_code_is_written_by_its_name_and_a_later_one_is_unknown() {
        for code in Code::ALL {
            let word = serde_json::to_string(code).unwrap();
            assert_eq!(word, format!("\"{}\"", code.name()));
            assert_eq!(serde_json::from_str::<Code>(&word).unwrap(), *code);
        }
        let later = serde_json::from_str::<Code>("\"of-a-later-release\"").unwrap();
        assert_eq!(later, Code::Unknown);
    }
}
