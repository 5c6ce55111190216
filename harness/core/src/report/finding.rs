//! One finding of a check.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Budget, Enclosing, FindingKind, Frame, Holder, Outlived, Site};
use crate::escape;
use crate::ledger::{Amount, Kind, Layer, Place, PoolName};

/// One thing that a check reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The kind of the finding.
    pub kind: FindingKind,
    /// The layer, which is one allocator.
    pub layer: Layer,
    /// The kind of resource. None if the finding is about a reserve, a limit or resources of
    /// several kinds.
    pub resource: Option<Kind>,
    /// The pool, if the finding is about the reserve of a pool.
    pub pool: Option<PoolName>,
    /// The device or the host.
    pub place: Place,
    /// The number of resources.
    pub count: u64,
    /// The total number of bytes, or 0 for resources without bytes.
    pub bytes: u64,
    /// The size of each resource, if all have the same size.
    pub each: Option<u64>,
    /// For each size, the number of resources and their total size, if there are a few different
    /// sizes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<Amount>,
    /// The call site that created the resources.
    pub site: Site,
    /// How many resources this call site created during the check.
    pub allocated: u64,
    /// How many of these resources were freed during the check.
    pub freed: u64,
    /// Where other resources that were created on the same line were freed in the run that
    /// confirmed the finding. At most three places are given. Empty if the places are unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub siblings: Vec<Sibling>,
    /// If there are no siblings, at most two other resources that the same function created, and
    /// where they were freed in the run that confirmed the finding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub companions: Vec<Companion>,
    /// Other leaked resources that the same calls created: a buffer's events, a handle's workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<Consequence>,
    /// Whether this finding is a consequence of another finding and is reported with that finding.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub is_consequence: bool,
    /// When the resources were created. None if this is unknown.
    pub when: Option<When>,
    /// The order in which the run that confirmed the finding created and freed everything on its
    /// line: `allocated #1 and #2; freed #2; left: #1`. None if there are too many resources, or if
    /// not everything is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// How the context ended, if only its end freed the resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// The results of further runs of the body. None if there were no further runs.
    pub confirmed: Option<Confirmation>,
    /// The free that failed, for [`FindingKind::FailedFree`].
    pub failed: Option<FailedFree>,
    /// The usage after each round, for [`FindingKind::Grew`].
    pub rounds: Vec<Amount>,
    /// The limit that was exceeded. None if the finding is not about a limit.
    pub budget: Option<Budget>,
    /// The entry that allows the resources to stay, for [`FindingKind::Allowed`]. None if no entry
    /// is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_by: Option<AllowedBy>,
    /// The entry that matches the resources, but whose limits they exceed:
    /// `gpu-leak-check.toml:12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exceeds: Option<String>,
    /// The thread that created the resources, if it does not belong to the test.
    pub foreign_thread: Option<String>,
    /// The places in the program from which one of the resources is still reachable, the nearest
    /// first. Empty if none of the resources is reachable. None if there was no search or the
    /// search was incomplete. This is only advice, because a copy of an address may no longer be in
    /// use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holders: Option<Vec<Holder>>,
    /// Why the holders are unknown, if there was a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_searched: Option<String>,
    /// If the resources are not reachable, the heap blocks that still contain the address of one of
    /// them. Known only for blocks that were allocated by the run that confirmed the finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enclosing: Option<Enclosing>,
    /// If the resources are not reachable and `enclosing` is None, at most two heap blocks that
    /// contained the address of one of the resources and were freed in the run that confirmed the
    /// finding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outlived: Vec<Outlived>,
    /// Lines of the program, besides the finding's own line, that show how the finding came about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passages: Vec<Passage>,
    /// Lines about the holders. These lines are more informative than `passages`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_at: Vec<Passage>,
    /// Further facts, one sentence each.
    pub notes: Vec<String>,
}

/// The longest function name that a report suggests for an attribute.
const LONGEST_FUNCTION: usize = 80;

impl Finding {
    /// Creates a finding of this kind, layer, place and call site, with no objects and no bytes.
    #[must_use]
    pub fn new(kind: FindingKind, layer: Layer, place: Place, site: Site) -> Self {
        Self {
            kind,
            layer,
            place,
            site,
            ..Self::default()
        }
    }

    /// Returns the number and the total size.
    #[must_use]
    pub const fn amount(&self) -> Amount {
        Amount {
            count: self.count,
            bytes: self.bytes,
        }
    }

    /// Whether the finding could not be confirmed, because a further run of the body ended
    /// differently.
    #[must_use]
    pub fn is_unconfirmed(&self) -> bool {
        self.confirmed == Some(Confirmation::NotRepeatable)
    }

    /// Whether the finding is about something that was still held at the end, unlike a limit that
    /// was exceeded during the run.
    #[must_use]
    pub fn is_left(&self) -> bool {
        let is_left = !matches!(
            self.kind,
            FindingKind::FailedFree | FindingKind::OverBudget | FindingKind::Deferred
        );
        is_left && self.budget.is_none()
    }

    /// Whether the finding fails a test unless the policy says otherwise. An unconfirmed finding
    /// does not make a test fail, but its check is inconclusive.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.kind.is_failure() && !self.is_unconfirmed()
    }

    /// Whether an `allow` entry can let the resources stay. A failed free is always an error, and a
    /// budget sets its own limit.
    #[must_use]
    pub fn can_be_allowed(&self) -> bool {
        let is_left = matches!(
            self.kind,
            FindingKind::Leaked | FindingKind::Grew | FindingKind::FirstUse
        );
        is_left && self.budget.is_none()
    }

    /// Returns the functions of the program that are on the stacks of all `findings` and whose
    /// names can be copied into an attribute, the innermost first.
    #[must_use]
    pub fn common_functions<'a>(findings: &[&'a Self]) -> Vec<&'a str> {
        let first = findings.iter().take(1);
        let functions = first
            .flat_map(|it| it.site.users_functions())
            .filter(|function| {
                let is_of = |it: &&Self| it.site.users_functions().any(|it| it == *function);
                let can_be_copied = function.len() <= LONGEST_FUNCTION;
                can_be_copied && escape::name(function) == *function && findings.iter().all(is_of)
            });
        functions.collect()
    }

    /// Returns the passages that a report shows.
    pub fn shown_passages(&self) -> impl Iterator<Item = &Passage> + Clone {
        let holds = |it: &Passage| it.what != PassageKind::DropsHolder;
        let is_held = self.held_at.iter().any(holds);
        let passages = self.passages.iter().filter(move |_| !is_held);
        passages.chain(&self.held_at)
    }

    /// Returns the verbs for creating and freeing these resources: `allocated` and `freed`.
    #[must_use]
    pub fn verbs(&self) -> (&'static str, &'static str) {
        self.resource.map_or(("allocated", "freed"), verbs)
    }
}

/// Returns the verbs for creating and freeing a resource of this kind.
#[must_use]
pub const fn verbs(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        _ if kind.is_handle() => ("created", "destroyed"),
        Kind::Registered => ("registered", "unregistered"),
        _ => ("allocated", "freed"),
    }
}

/// The end of a context, which freed resources that the program had not freed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Ended {
    /// How the context ended: `freed only because its context was destroyed`.
    pub how: String,
    /// The call that ended the context: `App::close (src/app.rs:40) ← src/main.rs:12`. None if it
    /// is unknown.
    pub at: Option<String>,
}

/// Lines of one function of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Passage {
    /// The relation of the lines to a finding.
    pub what: PassageKind,
    /// The first line.
    pub frame: Frame,
    /// The number of the last line.
    pub until: u32,
}

/// The relation of lines to a finding. *Other resources* are its siblings or, if it has none, its
/// companions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PassageKind {
    /// From the line that created the resource to the line that freed other resources.
    ToFree,
    /// The lines between the call that led to the creation of the resource and the call that led to
    /// the free of other resources, in either order.
    ToCallOfFree,
    /// Other resources were freed here.
    Freed,
    /// A call, in a function between the common caller and the free, that led to the free of other
    /// resources.
    LedToFree,
    /// A free of an address inside the resource instead of the resource's own address.
    FreesInside,
    /// The function that created the resource was called here.
    Called,
    /// A call that led to the creation of another resource after the leaked one had been created.
    Later,
    /// A use of the static that holds the resource.
    UsesHolder,
    /// The allocation of a block of the cycle that holds the resource.
    InCycle,
    /// The call that dropped or cleared the owner of the resource.
    DropsHolder,
}

/// The entry or code that allows a resource to stay. It is displayed as the sentence in a report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct AllowedBy {
    /// Where the permission is written: `the attribute`, `the code`, `gpu-leak-check.toml:12`.
    pub stands_in: String,
    /// Why the resources may stay.
    pub reason: String,
    /// Who is responsible for the entry.
    pub owner: Option<String>,
    /// The day on which the entry expired: `2026-05-31`. None if it has not expired.
    pub expired: Option<String>,
}

impl AllowedBy {
    /// Describes an entry at this location, with this reason.
    #[must_use]
    pub fn new(stands_in: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            stands_in: stands_in.into(),
            reason: reason.into(),
            owner: None,
            expired: None,
        }
    }

    /// Describes code under test that allows a resource to stay for this reason.
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

/// Resources that were created on the line of a finding and have been freed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Sibling {
    /// The number of resources.
    pub count: u64,
    /// Where the resources were freed: `cache::evict (src/cache.rs:37) ← src/main.rs:12`.
    pub freed_at: String,
    /// The callers through which the resources were created, if these callers differ from the
    /// finding's.
    pub allocated_from: Option<String>,
}

/// Other resources that were freed. The function that created a finding's resources also created
/// them, through the same callers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Companion {
    /// The kind of resource.
    pub resource: Kind,
    /// The number of resources.
    pub count: u64,
    /// The function and the line that created the resources: `Texture::new (src/texture.rs:20)`.
    pub created_in: String,
    /// Where the resources were freed: `Texture::drop (src/texture.rs:31) ← src/main.rs:12`.
    pub freed_at: String,
}

/// A resource that leaks because the resource of a finding leaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Consequence {
    /// The kind of resource.
    pub resource: Kind,
    /// The number of resources.
    pub count: u64,
    /// The total number of bytes, or 0 for resources without bytes.
    pub bytes: u64,
}

/// When something was created, counted in allocating and freeing calls of the process during the
/// test. Reading a clock would cost as much as the rest of such a call, and times differ from run
/// to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct When {
    /// The number of the call that created the first resource, counted from 1.
    pub first: u64,
    /// The number of the call that created the last resource.
    pub last: u64,
    /// The number of calls during the test.
    pub of: u64,
}

/// A free or destroy call that returned an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct FailedFree {
    /// The name of the error, such as `CUDA_ERROR_INVALID_VALUE`.
    pub error: String,
    /// The error number.
    pub code: u32,
    /// The location of the call.
    pub site: Site,
}

/// The results of further runs of the body for a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Confirmation {
    /// A further run of the body ended differently from the first, so it is unknown whether each
    /// run leaves the resources.
    NotRepeatable,
    /// There is one run of a whole program, and the interpreter that ran it freed the resources
    /// only as it shut down.
    UntilShutdown,
    /// There is one run of a whole test process, and a static still held the resources when the
    /// process ended.
    HeldByStatic,
    /// At least two runs of the body, including the last one, left the resources or exceeded the
    /// limit.
    // serde requires untagged variants to be last.
    #[serde(untagged)]
    Repeated {
        /// The number of runs that left the resources.
        runs: u32,
        /// The number of all runs.
        of: u32,
        /// The number of resources that the last run left.
        count: u64,
        /// The number of bytes that the last run left.
        bytes: u64,
    },
}

impl Confirmation {
    /// Describes a finding whose resources were left by the first and the second of two runs. The
    /// arguments are the amount that the second run left.
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
