//! A finished check as data. Everything printed or written comes from here.

mod device;
mod finding;
mod site;
mod timeline;

use serde::{Deserialize, Serialize};

pub use self::device::{DeviceTable, Figure, Row, WholeDevice};
pub use self::finding::{
    Budget, FailedRelease, Finding, Left, Referrer, Root, RootKind, Share, When,
};
pub use self::site::{Frame, Known, Language, Library, Owner, Site};
pub use self::timeline::{Course, Point, RunPurpose, Timeline, TimelineRun};
use crate::code::Code;
pub use crate::judge::{Confirmation, Part, Purpose};
use crate::ledger::Place;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// The test's name as libtest prints it, or the name of a block.
    pub test: String,
    /// Where the check stands: `tests/train.rs`, relative to the workspace.
    pub file: String,
    /// The line in that file, from 1.
    pub line: u32,
    /// The column in that line, from 1.
    pub column: u32,
    /// The worst finding, or why there could be none.
    pub verdict: Verdict,
    /// What it means for the test by the run's policy; none where nobody weighed it, as of a
    /// [`Scope`](crate::Scope), and in files of releases before this field.
    #[serde(default)]
    pub outcome: Option<Outcome>,
    /// Why, for `inconclusive` and `not-measured`.
    pub reason: Option<Reason>,
    /// Worst first, then largest.
    pub findings: Vec<Finding>,
    /// What each device held before and after.
    pub devices: Vec<DeviceTable>,
    /// Things to know that fail nothing, a sentence each.
    pub notes: Vec<String>,
    /// Devices whose primary context was retained more often than released.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub primaries: Vec<PrimaryKept>,
    /// The command that runs this test alone.
    pub again: Option<String>,
    /// Milliseconds spent waiting for other checks to finish.
    pub waited_ms: u64,
    /// Milliseconds spent on the check itself, the body's runs excluded.
    pub overhead_ms: f64,
    /// How what was held moved meanwhile; none where nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
}

impl Report {
    /// A report of a check that stands there, and says nothing but its verdict.
    #[must_use]
    pub fn new(
        test: impl Into<String>,
        file: impl Into<String>,
        line: u32,
        column: u32,
        verdict: Verdict,
    ) -> Self {
        Self {
            test: test.into(),
            file: file.into(),
            line,
            column,
            verdict,
            outcome: None,
            reason: None,
            findings: Vec::new(),
            devices: Vec::new(),
            notes: Vec::new(),
            primaries: Vec::new(),
            again: None,
            waited_ms: 0,
            overhead_ms: 0.0,
            timeline: None,
        }
    }

    /// Whether it is of a program as a whole, which was watched from outside: there is no line where
    /// an attribute could stand.
    #[must_use]
    pub fn is_of_a_program(&self) -> bool {
        self.line == 0
    }

    /// Whether it tells of something that fails a test by default, and that the run's policy only
    /// warns of.
    #[must_use]
    pub fn is_only_warned(&self) -> bool {
        self.verdict.is_failure() && self.outcome == Some(Outcome::Warn)
    }
}

#[cfg(test)]
impl Report {
    /// A report of the test `a` that says nothing but its verdict.
    pub(super) fn bare(verdict: Verdict) -> Self {
        Self {
            overhead_ms: 0.25,
            ..Self::new("a", "tests/train.rs", 3, 1, verdict)
        }
    }
}

/// That a test holds the primary context of a device. No finding: the whole process shares it, and
/// whoever needs the device first makes it and keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PrimaryKept {
    /// The device.
    pub place: Place,
    /// How often it was retained more than released.
    pub times: u64,
}

/// What a check found, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Verdict {
    /// Something the test took is still held.
    Leaked,
    /// A free or destroy call returned an error.
    FailedFree,
    /// An allocator holds more than before, and nothing live explains it.
    Retained,
    /// A site holds more after every round.
    Grew,
    /// A limit of the test was passed.
    OverBudget,
    /// Made once, kept, and not made again.
    FirstUse,
    /// Held, and meant to be.
    Allowed,
    /// The check could not be relied on.
    Inconclusive,
    /// Nothing could be measured.
    NotMeasured,
    /// The process ended inside the test.
    Aborted,
    /// Everything was given back.
    Clean,
}

impl Verdict {
    /// Whether it fails a test unless the policy says otherwise: what `on_leak` is about.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(
            self,
            Self::Leaked
                | Self::FailedFree
                | Self::Retained
                | Self::Grew
                | Self::OverBudget
                | Self::Aborted
        )
    }

    /// The word for it: `failed-free`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Leaked => "leaked",
            Self::FailedFree => "failed-free",
            Self::Retained => "retained",
            Self::Grew => "grew",
            Self::OverBudget => "over-budget",
            Self::FirstUse => "first-use",
            Self::Allowed => "allowed",
            Self::Inconclusive => "inconclusive",
            Self::NotMeasured => "not-measured",
            Self::Aborted => "aborted",
            Self::Clean => "clean",
        }
    }
}

/// What a report means for its test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Nothing to tell at the test itself.
    Pass,
    /// The test passes and the report is printed.
    Warn,
    /// The test fails.
    Fail,
}

/// Why a check has no verdict of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reason {
    /// A stable word: `no-gpu`, `unheard`, `unheard-function`, `unheard-library`, `poisoned`,
    /// `no-probe`.
    pub code: String,
    /// One sentence: what is wrong.
    pub what: String,
    /// One sentence: what to do about it.
    pub remedy: String,
}

impl Reason {
    /// A reason with one of the words that are explained.
    #[must_use]
    pub fn new(code: Code, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            code: code.name().to_owned(),
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}
