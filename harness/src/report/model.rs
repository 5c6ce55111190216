//! A finished check as data. Everything printed or written comes from here.

use serde::{Deserialize, Serialize};

use super::{headline, text};
pub use crate::judge::{Confirmation, Part, Purpose};
use crate::ledger::{Kind, Layer, Place};

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Why, for `inconclusive` and `not-measured`.
    pub reason: Option<Reason>,
    /// Worst first, then largest.
    pub findings: Vec<Finding>,
    /// What each device held before and after.
    pub devices: Vec<DeviceTable>,
    /// Things to know that fail nothing, a sentence each.
    pub notes: Vec<String>,
    /// The command that runs this test alone.
    pub again: Option<String>,
    /// Milliseconds spent waiting for other checks to finish.
    pub waited_ms: u64,
    /// Milliseconds spent on the check itself, the body's runs excluded.
    pub overhead_ms: f64,
}

impl Report {
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
            reason: None,
            findings: Vec::new(),
            devices: Vec::new(),
            notes: Vec::new(),
            again: None,
            waited_ms: 0,
            overhead_ms: 0.25,
        }
    }
}

/// What a check found, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

/// Why a check has no verdict of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// A stable word: `no-gpu`, `no-cupti`, `cupti-too-old`, `tracer-taken`, `tracer-lost`,
    /// `poisoned`, `no-probe`.
    pub code: String,
    /// One sentence: what is wrong.
    pub what: String,
    /// One sentence: what to do about it.
    pub remedy: String,
}

/// One thing to tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
pub struct Referrer {
    /// Where the way begins.
    pub root: Root,
    /// Through how many blocks of the heap it leads; 0 where the address lies in the place itself.
    pub blocks: u32,
}

/// A place where a program's own data begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct Left {
    /// How many.
    pub count: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// A limit of the test that was passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// Whose code a frame is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// The user's.
    #[default]
    User,
    /// A crate from a registry or a git checkout.
    Dependency,
    /// Rust's own libraries.
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
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Bytes handed out and not got back.
    Allocated,
    /// Bytes held from the layer below.
    Reserved,
    /// Objects.
    Handles,
}
