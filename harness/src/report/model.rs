//! A finished check as data. Everything printed or written comes from here.

use serde::{Deserialize, Serialize};

use super::{headline, text};
use crate::code::Code;
pub use crate::judge::{Confirmation, Part, Purpose};
use crate::ledger::{Kind, Layer, Place};

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

    /// Fails the test if something was left. What could not be measured fails nothing here: see
    /// [`Report::verdict`].
    ///
    /// # Panics
    ///
    /// With the whole report, when it has a finding other than first use.
    #[track_caller]
    pub fn assert_clean(&self) {
        let is_told_only =
            |finding: &Finding| matches!(finding.verdict, Verdict::FirstUse | Verdict::Allowed);
        assert!(
            self.findings.iter().all(is_told_only),
            "{}\n\n{}",
            headline(self),
            text::to_string(self, &text::Rendering::for_stderr())
        );
    }
}

#[cfg(test)]
impl Report {
    /// A report of the test `a` that says nothing but its verdict.
    pub(super) fn bare(verdict: Verdict) -> Self {
        Self {
            test: "a".to_owned(),
            file: "tests/train.rs".to_owned(),
            line: 3,
            column: 1,
            verdict,
            outcome: None,
            reason: None,
            findings: Vec::new(),
            devices: Vec::new(),
            notes: Vec::new(),
            primaries: Vec::new(),
            again: None,
            waited_ms: 0,
            overhead_ms: 0.25,
            timeline: None,
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
    /// A stable word: `no-gpu`, `no-cupti`, `cupti-too-old`, `tracer-taken`, `tracer-lost`,
    /// `poisoned`, `no-probe`.
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

/// One thing to tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// What sort of finding.
    pub verdict: Verdict,
    /// The allocator.
    pub layer: Layer,
    /// What is held; none where an allocator's reserve is meant.
    pub kind: Option<Kind>,
    /// Whose reserve that is, where not the layer's: `pool 0`, as in the device's table.
    #[serde(default)]
    pub holder: Option<String>,
    /// Where.
    pub place: Place,
    /// How many.
    pub count: u64,
    /// How many bytes in all; 0 for handles.
    pub bytes: u64,
    /// The size of each, where all have the same.
    pub each: Option<u64>,
    /// Where in the program they were taken.
    pub site: Site,
    /// How often this place took one during the check.
    pub taken: u64,
    /// How often one taken here was given back during the check.
    pub given_back: u64,
    /// When they were taken; none where nobody knows.
    #[serde(default)]
    pub when: Option<When>,
    /// What the second run showed; none where there was none.
    pub confirmed: Option<Confirmation>,
    /// The free that failed, for [`Verdict::FailedFree`].
    pub failed: Option<FailedRelease>,
    /// What was left after each round, for [`Verdict::Grew`].
    #[serde(default)]
    pub rounds: Vec<Left>,
    /// The limit that was passed, for [`Verdict::OverBudget`].
    #[serde(default)]
    pub budget: Option<Budget>,
    /// The thread that took them, where it is not one of the test's own.
    pub foreign_thread: Option<String>,
    /// What of the program still leads to one of them, the nearest first. Empty where nothing does;
    /// none where nobody looked, or not at everything. Advice: a copy of an address need not be
    /// one in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub referrers: Option<Vec<Referrer>>,
    /// More about it, a sentence each.
    pub notes: Vec<String>,
}

/// A place of the program that leads to what a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Referrer {
    /// Where the way begins.
    pub root: Root,
    /// Through how many blocks of the heap it leads; 0 where the address lies in the place itself.
    pub blocks: u32,
}

/// A place where a program's own data begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Root {
    /// What sort of place.
    pub kind: RootKind,
    /// The variable: `optim::STATE`; of a stack, the function whose frame it is.
    pub name: Option<String>,
    /// The thread whose it is: `worker-3`; none for a static.
    pub thread: Option<String>,
    /// The library it lies in; none for the program itself.
    pub module: Option<String>,
}

/// What sort of place that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum RootKind {
    /// A static.
    Static,
    /// A thread-local.
    ThreadLocal,
    /// A stack.
    Stack,
}

/// The age of what is held, in allocating and freeing calls of the process while the test ran: a
/// clock would cost as much as all the rest of such a call, and no two runs would agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct When {
    /// The call that took the first of them, from 1.
    pub first: u64,
    /// The call that took the last.
    pub last: u64,
    /// How many calls there were.
    pub of: u64,
}

/// A free or destroy call that returned an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FailedRelease {
    /// `CUDA_ERROR_INVALID_VALUE`.
    pub error: String,
    /// The error's number.
    pub code: u32,
    /// Where the call stands.
    pub site: Site,
}

/// What a site had left after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Left {
    /// How many.
    pub count: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// A limit of the test that was passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Budget {
    /// The option that sets it: `max_allocated`.
    pub option: String,
    /// What it allows: bytes, or allocations.
    pub allowed: u64,
    /// What the test came to.
    pub reached: u64,
    /// Who had part in it, the largest first: of bytes, what was alive at the peak. The first is
    /// the finding's own site.
    pub shares: Vec<Share>,
}

/// The part that one site has in what passed a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Share {
    /// How many allocations.
    pub count: u64,
    /// How many bytes.
    pub bytes: u64,
    /// `src/optim.rs:88`.
    pub at: String,
}

/// A distinct stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Site {
    /// The same for the same kind and functions, whatever the addresses, the lines and what was
    /// inlined; 16 hexadecimal digits behind a version: `1-0123456789abcdef`.
    pub fingerprint: String,
    /// Innermost first, inlined ones included; the harness's own and CUDA's are left out at the
    /// top, the runtime's start-up at the bottom.
    pub frames: Vec<Frame>,
    /// Which of them is the user's line.
    pub user: Option<usize>,
    /// The library that took it, where not the user's code or a crate did.
    #[serde(default)]
    pub library: Option<Library>,
}

/// A library that takes GPU memory or objects for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Library {
    /// What its users call it: `cuBLAS`.
    pub name: String,
    /// The function by which it was entered: `cublasCreate_v2`.
    pub function: Option<String>,
    /// Its file, which mostly has its version: `libcublas.so.13.0.0.19`.
    pub file: Option<String>,
    /// The framework that called it: `libtorch`.
    pub called_by: Option<String>,
    /// What it is known to keep.
    pub known: Option<Known>,
}

/// A row of the table of what libraries keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Known {
    /// The table's version.
    pub table: u32,
    /// The row: `cublas-handle`.
    pub row: String,
    /// What is kept, until when, and what to do; a sentence.
    pub says: String,
}

/// One frame of a stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Frame {
    /// Demangled, without its hash.
    pub function: Option<String>,
    /// Relative to the workspace where it lies inside.
    pub file: Option<String>,
    /// From 1.
    pub line: Option<u32>,
    /// From 1.
    pub column: Option<u32>,
    /// The library or program: `libcublas.so.13`.
    pub module: Option<String>,
    /// Inside the module, for a frame without a name.
    pub offset: Option<u64>,
    /// Whose code it is.
    pub owner: Owner,
    /// What it is written in.
    #[serde(default, skip_serializing_if = "Language::is_compiled")]
    pub language: Language,
}

/// What a frame's function is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Language {
    /// Anything that is compiled to machine code.
    #[default]
    Compiled,
    /// Python.
    Python,
}

impl Language {
    fn is_compiled(&self) -> bool {
        *self == Self::Compiled
    }
}

/// Whose code a frame is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// The user's.
    #[default]
    User,
    /// A crate from a registry or a git checkout, an installed package of Python's.
    Dependency,
    /// Rust's or Python's own libraries.
    Std,
    /// NVIDIA's libraries.
    Cuda,
    /// This harness.
    Harness,
    /// A C library or anything else without a known source.
    Native,
}

/// What a device held, a row a layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeviceTable {
    /// `cuda:0`.
    pub place: Place,
    /// `NVIDIA H200`; none where nobody knows.
    pub name: Option<String>,
    /// Its UUID, of which reports print the first part: `GPU-5f2c0d4e-…`.
    pub uuid: Option<String>,
    /// Its rows, the driver first.
    pub rows: Vec<Row>,
    /// The whole device; none where it was not read, or where other processes use it.
    #[serde(default)]
    pub whole: Option<WholeDevice>,
}

/// What all that use a device hold of its memory, and what is known of the difference. Advice:
/// no verdict comes from it, for the driver and other processes hold memory as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WholeDevice {
    /// Whether this is about the second run of the body, for the first one began without a context
    /// on the device.
    pub second_run: bool,
    /// Bytes in use before the body.
    pub baseline: u64,
    /// Bytes in use after it.
    pub after: u64,
    /// What is accounted for of the difference.
    pub parts: Vec<Part>,
    /// The rest of it, as far as this process knows.
    pub unexplained: i64,
    /// What may be behind the rest: `2 modules were loaded`.
    pub hints: Vec<String>,
}

/// One row of such a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Row {
    /// `driver`, `pool 0`, `allocator:cubecl`, `handles`.
    pub layer: String,
    /// What is counted.
    pub figure: Figure,
    /// Before the body.
    pub baseline: u64,
    /// After it.
    pub after: u64,
    /// The most at any moment between; none where nobody keeps it.
    pub peak: Option<u64>,
    /// A remark: `pinned by the two above`.
    pub remark: Option<String>,
}

/// What a row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Bytes handed out and not got back.
    Allocated,
    /// Bytes held from the layer below.
    Reserved,
    /// Objects.
    Handles,
}

/// How what was held moved while the check ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Timeline {
    /// The runs of the body, in their order.
    pub runs: Vec<TimelineRun>,
    /// How many rounds before the last ones are left out.
    #[serde(default)]
    pub left_out: u64,
}

/// One run of the body. Its moments are allocating and freeing calls of the process, from 1, as in
/// [`When`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TimelineRun {
    /// What it was for.
    pub purpose: RunPurpose,
    /// How many calls there were until all that comes back had come back.
    pub calls: u64,
    /// How many of them until the body had ended; what follows is the check, emptying caches.
    pub body: u64,
    /// A curve for each figure that moved.
    pub curves: Vec<Course>,
}

/// What a run of the body is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RunPurpose {
    /// To be judged.
    Judged,
    /// To confirm what the one before it found.
    Confirming,
    /// One of several that are judged together.
    Round,
}

/// How one figure of [`DeviceTable`] moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Course {
    /// Where.
    pub place: Place,
    /// As in [`Row::layer`].
    pub layer: String,
    /// What is counted.
    pub figure: Figure,
    /// The value when the run began.
    pub start: u64,
    /// The most at any moment, to the byte; of what is reserved, the most that was read.
    pub peak: u64,
    /// In the order of their calls, at most some 250. Of what is reserved only what was read: before
    /// the body, at its end and after it.
    pub points: Vec<Point>,
}

impl Course {
    /// The value at the end.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.points.last().map_or(self.start, |point| point.2)
    }
}

/// From this call up to the next point's, the figure was between the least and the most: `[call,
/// least, most]`. Up to a hundred calls each has its point, with one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Point(pub u64, pub u64, pub u64);
