//! The data of a finished check, from which everything is printed and written.

use serde::{Deserialize, Serialize};

/// The resources that a call site had left after a round.
pub use gpu_leak_core::ledger::Amount as Left;
pub use gpu_leak_core::report::{
    AllowedBy, Budget, CheckStatus, Code, Companion, Confirmation, Consequence, Course,
    DeviceTable, Enclosing, Ended, FailedFree, Figure, Finding, FindingKind, Frame, GraphMemory,
    Holder, HolderKind, HolderRoot, Language, Library, Limit, LoggedAllocation, MeantToStay,
    Outcome, Outlived, Owner, Part, Passage, PassageKind, Peak, Point, PrimaryKept, Purpose,
    Reason, Reusable, Row, RunPurpose, Share, Sibling, Site, Timeline, TimelineRun, When,
    WholeDevice, verbs,
};

use crate::judge::{
    CheckInput, CheckResult, Subject, device_tables, graph_memory, meant_to_stay, peaks, timeline,
};
use crate::ledger::Place;

/// The result of one check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// The test's name as libtest prints it, or the name of a block.
    pub test: String,
    /// The file that contains the check: `tests/train.rs`, relative to the workspace.
    pub file: String,
    /// The line in that file, counted from 1.
    pub line: u32,
    /// The column in that line, counted from 1.
    pub column: u32,
    /// The status of the check: the kind of the worst finding or, if there is none, whether the
    /// check could be judged.
    pub status: CheckStatus,
    /// The outcome of the test under the run's policy. None for a [`Scope`](crate::Scope), which
    /// has no outcome.
    // Without it, a failure could be taken for a success, so a report that lacks it is damaged.
    #[serde(deserialize_with = "Option::deserialize")]
    pub outcome: Option<Outcome>,
    /// The nested check whose failure ended the test. The status is that of the nested check,
    /// unless the test has a failing finding of its own.
    #[serde(default)]
    pub failed_inside: Option<String>,
    /// The reason for the status `inconclusive`, `not-measured` or `unexpected`.
    pub reason: Option<Reason>,
    /// The findings: first those that explain others, then the worst, then those in the
    /// program's own code, then the largest.
    pub findings: Vec<Finding>,
    /// The usage of each device before and after the check.
    pub devices: Vec<DeviceTable>,
    /// Notes, which do not fail a test. Each note is one sentence.
    pub notes: Vec<String>,
    /// The note about budgets that have no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unbound: Option<String>,
    /// The configuration file whose settings apply. None if no such file was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured_by: Option<String>,
    /// The options with which the check would have passed, for resources that are meant to stay.
    /// None if no options are suggested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meant_to_stay: Option<MeantToStay>,
    /// Devices whose primary context was retained more often than released.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub primaries: Vec<PrimaryKept>,
    /// The command that runs this test alone.
    pub again: Option<String>,
    /// Milliseconds spent waiting for other checks to finish.
    pub waited_ms: u64,
    /// Milliseconds spent on the check itself, excluding the runs of the body.
    pub overhead_ms: f64,
    /// How usage changed during the check; none if nothing changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// The contents of the peak of each layer; empty unless the `peaks` option is set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peaks: Vec<Peak>,
    /// With the `peaks` option, the graphs that hold more memory at once than they would need if
    /// their nodes ran in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graphs: Vec<GraphMemory>,
}

impl Report {
    /// Creates a report that contains only this subject and this status.
    pub(crate) fn about(subject: Subject, status: CheckStatus) -> Self {
        Self {
            test: subject.test,
            file: subject.file,
            line: subject.line,
            column: subject.column,
            again: subject.again,
            status,
            ..Self::default()
        }
    }

    /// Builds the report of a check from its input and its result. To find advice, options are
    /// tried out on the input, which is then restored.
    pub(crate) fn of_check(input: &mut CheckInput, result: &CheckResult) -> Self {
        let meant_to_stay = match input.facts.whole_program {
            // A whole program has no attribute that could have options.
            true => None,
            false => meant_to_stay(input, result),
        };
        Self {
            reason: result.reason.clone(),
            findings: result.findings.clone(),
            devices: device_tables(input),
            notes: result.notes.clone(),
            unbound: result.unbound.clone(),
            meant_to_stay,
            primaries: input.first().primaries.clone(),
            timeline: timeline::of_check(input),
            peaks: peaks(input),
            graphs: graph_memory(input),
            ..Self::about(input.subject.clone(), result.status)
        }
    }

    /// Returns the contents of the peak of a layer on this device or the host. `layer` is the name
    /// of the layer in the tables. Returns `None` without the `peaks` option, or if the check
    /// allocated nothing there.
    ///
    /// ```
    /// use gpu_leak_check::{Check, Place};
    ///
    /// let ((), report) = Check::new("one step").peaks(true).run_reporting(|| { /* … */ });
    /// assert_eq!(report.peak(Place::cuda(0), "driver"), None);
    /// ```
    #[must_use]
    pub fn peak(&self, place: Place, layer: &str) -> Option<&Peak> {
        let mut peaks = self.peaks.iter();
        peaks.find(|peak| peak.place == place && peak.layer == layer)
    }

    /// Returns a note that names the configuration file, such as
    /// `configured by gpu-leak-check.toml`.
    #[must_use]
    pub fn configuration_note(&self) -> Option<String> {
        let file = self.configured_by.as_ref()?;
        Some(format!("configured by {file}"))
    }

    /// Returns a note that says how to get source lines, if a finding lacks them.
    #[must_use]
    pub fn lines_note(&self) -> Option<String> {
        let remedy = match self.is_of_a_program() {
            true => "build the program with line tables, in C and C++ with `-g`",
            false => "set `debug = \"line-tables-only\"` for this profile in Cargo.toml",
        };
        let mut findings = self.findings.iter();
        let lacks_lines = findings.any(|finding| {
            finding.kind != FindingKind::Allowed && finding.site.lacks_lines(self.is_of_a_program())
        });
        lacks_lines.then(|| format!("no source lines: {remedy}"))
    }

    /// Whether the report is about a whole program that was watched from outside. Such a program
    /// has no line to which an attribute could be added.
    #[must_use]
    pub fn is_of_a_program(&self) -> bool {
        self.line == 0
    }

    /// Whether the status fails a test by default, but only causes a warning under the run's
    /// policy.
    #[must_use]
    pub fn is_only_warned(&self) -> bool {
        self.status.is_failure() && self.outcome == Some(Outcome::Warn)
    }
}

#[cfg(test)]
impl Report {
    /// Returns a report of the test `a` that contains nothing but a status.
    pub(super) fn bare(status: CheckStatus) -> Self {
        Self {
            test: "a".to_owned(),
            file: "tests/train.rs".to_owned(),
            line: 3,
            column: 1,
            status,
            overhead_ms: 0.25,
            ..Self::default()
        }
    }
}
