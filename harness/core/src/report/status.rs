//! The kind of a finding, the status of a check, and the outcome for its test.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

named! {
    /// The kind of a finding, worst first.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
    )]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
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
        /// A call site holds more after every round.
        Grew = "grew",
        /// A limit of the test was exceeded.
        OverBudget = "over-budget",
        /// Something was created once, kept, and not created again.
        FirstUse = "first-use",
        /// The first run of the body left something that a later run freed.
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

/// The result of a check: the kind of its worst finding, or why there could be none. In a file, it
/// is one word, such as `not-measured`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CheckStatus {
    /// The result is not reliable.
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
        match self {
            Self::Unexpected | Self::Aborted => Outcome::Fail,
            Self::Inconclusive | Self::NotMeasured | Self::Clean => Outcome::Pass,
            Self::Found(kind) => match kind {
                FindingKind::Leaked
                | FindingKind::FailedFree
                | FindingKind::Retained
                | FindingKind::Grew
                | FindingKind::OverBudget => Outcome::Fail,
                FindingKind::FirstUse | FindingKind::Deferred => Outcome::Warn,
                FindingKind::Allowed => Outcome::Pass,
            },
        }
    }

    /// Whether this status fails a test unless `on_leak` says otherwise.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self.default_outcome(), Outcome::Fail)
    }

    /// Returns its name: `failed-free`, `not-measured`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Found(kind) => kind.name(),
            Self::Inconclusive => "inconclusive",
            Self::NotMeasured => "not-measured",
            Self::Unexpected => "unexpected",
            Self::Aborted => "aborted",
            Self::Clean => "clean",
        }
    }

    /// Whether the check could not see everything that it should have seen.
    #[must_use]
    pub const fn is_unmeasured(self) -> bool {
        matches!(self, Self::Inconclusive | Self::NotMeasured)
    }

    /// Returns the rank of this status: statuses that fail a test come first, then those of checks
    /// that could not be judged, then the rest.
    fn rank(self) -> (u8, Option<FindingKind>) {
        match self {
            Self::Unexpected => (0, None),
            Self::Found(kind) if kind.is_failure() => (0, Some(kind)),
            Self::Inconclusive => (1, None),
            Self::NotMeasured => (2, None),
            Self::Aborted => (3, None),
            Self::Found(kind) => (4, Some(kind)),
            Self::Clean => (5, None),
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
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
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

#[cfg(test)]
mod tests {
    use super::{CheckStatus, FindingKind};

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
}
