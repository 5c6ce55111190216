//! One thing to tell of a check.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{FindingKind, Site};
use crate::escape;
use crate::ledger::{Amount, Kind, Layer, Place, PoolName};

/// One thing to tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Finding {
    /// What sort of finding.
    pub kind: FindingKind,
    /// The allocator.
    pub layer: Layer,
    /// What is held; none where an allocator's reserve is meant.
    pub resource: Option<Kind>,
    /// The pool whose reserve it is, where it is one's.
    #[serde(default)]
    pub pool: Option<PoolName>,
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
    /// What further runs of the body showed; none where there was none.
    pub confirmed: Option<Confirmation>,
    /// The free that failed, for [`FindingKind::FailedFree`].
    pub failed: Option<FailedRelease>,
    /// What was left after each round, for [`FindingKind::Grew`].
    #[serde(default)]
    pub rounds: Vec<Amount>,
    /// The limit that was passed, for [`FindingKind::OverBudget`].
    #[serde(default)]
    pub budget: Option<Budget>,
    /// Who says that they may stay, for [`FindingKind::Allowed`]; none where nobody need say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_by: Option<AllowedBy>,
    /// The thread that took them, where it is not one of the test's own.
    pub foreign_thread: Option<String>,
    /// What of the program still leads to one of them, the nearest first. Empty where nothing does;
    /// none where nobody looked, or not at everything. Advice: a copy of an address need not be
    /// one in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holders: Option<Vec<Holder>>,
    /// More about it, a sentence each.
    pub notes: Vec<String>,
}

/// A longer name would not be copied from a report.
const LONGEST_FUNCTION: usize = 80;

impl Finding {
    /// Creates a finding of this kind, layer, place and call site, with no objects and no bytes.
    #[must_use]
    pub fn new(kind: FindingKind, layer: Layer, place: Place, site: Site) -> Self {
        Self {
            kind,
            layer,
            resource: None,
            pool: None,
            place,
            count: 0,
            bytes: 0,
            each: None,
            site,
            taken: 0,
            given_back: 0,
            when: None,
            confirmed: None,
            failed: None,
            rounds: Vec::new(),
            budget: None,
            allowed_by: None,
            foreign_thread: None,
            holders: None,
            notes: Vec::new(),
        }
    }
}

impl Finding {
    /// Returns the number and the total size.
    #[must_use]
    pub const fn amount(&self) -> Amount {
        Amount {
            count: self.count,
            bytes: self.bytes,
        }
    }

    /// Whether it could not be confirmed because the body cannot run twice.
    #[must_use]
    pub fn is_unconfirmed(&self) -> bool {
        self.confirmed == Some(Confirmation::NotRepeatable)
    }

    /// Whether it fails a test unless the policy says otherwise. An unconfirmed finding fails
    /// nothing: its check is inconclusive.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.kind.is_failure() && !self.is_unconfirmed()
    }

    /// Returns the function that all `findings` come from, if its name can be copied into an
    /// attribute.
    #[must_use]
    pub fn common_function<'a>(findings: &[&'a Self]) -> Option<&'a str> {
        let mut functions = findings
            .iter()
            .map(|finding| finding.site.user_frame()?.function.as_deref());
        let first = functions.next()??;
        let is_of_all = functions.all(|function| function == Some(first));
        let can_be_copied = first.len() <= LONGEST_FUNCTION && escape::name(first) == first;
        (is_of_all && can_be_copied).then_some(first)
    }
}

/// What says that something may stay. Its text is the sentence that a report has for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct AllowedBy {
    /// Where that stands: `the attribute`, `the code`, `gpu-leak-check.toml:12`.
    pub stands_in: String,
    /// Why they may stay.
    pub reason: String,
    /// Who is to be asked.
    #[serde(default)]
    pub owner: Option<String>,
    /// The day on which the entry expired: `2026-05-31`; none while it holds.
    #[serde(default)]
    pub expired: Option<String>,
}

impl AllowedBy {
    /// Allowed by an entry at this location, for this reason.
    #[must_use]
    pub fn new(stands_in: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            stands_in: stands_in.into(),
            reason: reason.into(),
            owner: None,
            expired: None,
        }
    }

    /// Allowed by the code under test.
    #[must_use]
    pub fn the_code(reason: impl Into<String>) -> Self {
        Self::new("the code", reason)
    }
}

/// Formats as `allowed by gpu-leak-check.toml:12: a table, the runtime team; this entry expired on
/// 2026-05-31`.
impl fmt::Display for AllowedBy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "allowed by {}: {}", self.stands_in, self.reason)?;
        if let Some(owner) = &self.owner {
            write!(out, ", {owner}")?;
        }
        if let Some(day) = &self.expired {
            write!(out, "; this entry expired on {day}")?;
        }
        Ok(())
    }
}

/// A place of the program that leads to what a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Holder {
    /// Where the way begins.
    pub root: HolderRoot,
    /// Through how many blocks of the heap it leads; 0 where the address lies in the place itself.
    pub blocks: u32,
}

/// A place where a program's own data begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct HolderRoot {
    /// What sort of place.
    pub kind: HolderKind,
    /// The variable: `optim::STATE`; of a stack, the function whose frame it is.
    pub name: Option<String>,
    /// The thread whose it is: `worker-3`; none for a static.
    pub thread: Option<String>,
    /// The library it lies in; none for the program itself.
    pub module: Option<String>,
}

/// What sort of place that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum HolderKind {
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
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct FailedRelease {
    /// `CUDA_ERROR_INVALID_VALUE`.
    pub error: String,
    /// The error's number.
    pub code: u32,
    /// Where the call stands.
    pub site: Site,
}

/// A limit of the test that was passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Budget {
    /// The option that sets it: `max_allocated`.
    pub limit: Limit,
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
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Share {
    /// How many allocations.
    pub count: u64,
    /// How many bytes.
    pub bytes: u64,
    /// `src/optim.rs:88`.
    pub at: String,
}

/// Which limit of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Bytes allocated at once.
    MaxAllocated,
    /// Bytes reserved beyond the baseline.
    MaxReserved,
    /// Allocations made.
    MaxAllocationCount,
}

impl Limit {
    /// All limits.
    pub const ALL: [Self; 3] = [
        Self::MaxAllocated,
        Self::MaxReserved,
        Self::MaxAllocationCount,
    ];

    /// Returns the option that sets the limit.
    #[must_use]
    pub const fn option(self) -> &'static str {
        match self {
            Self::MaxAllocated => "max_allocated",
            Self::MaxReserved => "max_reserved",
            Self::MaxAllocationCount => "max_allocation_count",
        }
    }
}

/// What further runs of the body showed of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Confirmation {
    /// The body could not be run again: nobody knows whether each run leaves it.
    NotRepeatable,
    /// In how many of its runs the body left it.
    // serde wants what has no name of its own at the end.
    #[serde(untagged)]
    Repeated {
        /// In how many runs.
        runs: u32,
        /// Of how many that there were.
        of: u32,
        /// How many more the last run left.
        count: u64,
        /// How many more bytes.
        bytes: u64,
    },
}

impl Confirmation {
    /// What the second of two runs left, if the first left it too.
    #[must_use]
    pub const fn by_second_run(count: u64, bytes: u64) -> Self {
        Self::Repeated {
            runs: 2,
            of: 2,
            count,
            bytes,
        }
    }
}
