//! The lines that a check adds to a recording.

use serde::{Deserialize, Serialize};

use crate::check::family::Family;
use crate::device::contexts::DeviceName;
use crate::device::quiesce::Poisoned;
use crate::judge::{Budget, Claims, Reading};
use crate::ledger::event::{CuResult, ThreadNumber};
use crate::ledger::{Place, ScopeId};
use crate::options::Expect;
use crate::report::model::{CheckStatus, Frame, Reason};

/// A line of a check.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub(crate) enum Line {
    /// What a return address is. Stands before the first judgement that may ask.
    Symbol(Symbol),
    /// A scope is open from here on.
    Opened(Scope),
    /// A run of a body begins in it.
    Began(Began),
    /// The body ends here.
    BodyEnded(BodyEnded),
    /// What it left is judged here.
    Looked(Looked),
    /// The scope is no longer open.
    Closed(Scope),
    /// The run is over.
    Finished(Finished),
    /// A check is over: one scope, or two where it was confirmed.
    Concluded(Box<Concluded>),
}

/// A return address, as this process knows it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Symbol {
    pub(crate) address: usize,
    /// Innermost first: inlined calls.
    pub(crate) frames: Vec<Frame>,
}

/// A scope.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Scope {
    pub(crate) scope: ScopeId,
    /// The scope that it is a part of, in which things may stay.
    #[serde(default)]
    pub(crate) part_of: Option<ScopeId>,
}

/// The beginning of a body's run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Began {
    pub(crate) scope: ScopeId,
    /// The scope it lies in, if any.
    pub(crate) outer: Option<ScopeId>,
    pub(crate) budget: Budget,
    /// The test's name.
    pub(crate) test: String,
    pub(crate) before: Reading,
    pub(crate) poisoned: Vec<Poisoned>,
}

/// The end of a body, with everything that it has not given back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BodyEnded {
    pub(crate) scope: ScopeId,
    /// The most that each reserve has been; nothing where no budget asks.
    pub(crate) at_most: Reading,
}

/// The last look at what a body left.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Looked {
    pub(crate) scope: ScopeId,
    pub(crate) limits: Limits,
    pub(crate) seen: Seen,
}

/// What may stay.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Limits {
    pub(crate) tolerance: u64,
    pub(crate) reserved_tolerance: u64,
    /// How often the body may run to see what grows; 1 or less: it is judged by what it leaves.
    #[serde(default)]
    pub(crate) rounds: u32,
}

/// What there is to see at the end, beside the ledger.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) poisoned: Vec<Poisoned>,
    pub(crate) after: Reading,
    pub(crate) claims: Claims,
    /// The allocators that have a probe.
    #[serde(default)]
    pub(crate) probed: Vec<String>,
    pub(crate) family: Family,
    pub(crate) since: u64,
    /// Whether nothing but this check could run.
    pub(crate) alone: bool,
    /// Whether another check was at work meanwhile.
    pub(crate) met_a_check: bool,
}

/// The end of a body's run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Finished {
    pub(crate) scope: ScopeId,
    /// Whether the body ended as it should.
    pub(crate) as_expected: bool,
}

/// The end of a check.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Concluded {
    pub(crate) test: String,
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) again: Option<String>,
    pub(crate) runs: Runs,
    /// What the test is to leave.
    pub(crate) expect: Option<Expect>,
    /// Why the check could not see, if it could not.
    pub(crate) blind: Option<Blind>,
    pub(crate) told: Told,
}

/// The runs of a body, by their scopes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Runs {
    /// One, and another to confirm it if need be.
    Once(ScopeId, Option<ScopeId>),
    /// One after the other, to see what grows.
    Rounds(Vec<ScopeId>),
}

/// What a check could not see.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Blind {
    pub(crate) verdict: CheckStatus,
    pub(crate) reason: Reason,
}

/// What was asked for a report, with the answers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) devices: Vec<(Place, DeviceName)>,
    pub(crate) errors: Vec<(CuResult, String)>,
    pub(crate) threads: Vec<(ThreadNumber, String)>,
    pub(crate) culprit: Option<String>,
    #[serde(default)]
    pub(crate) resident_threads: Vec<(Place, u64)>,
    #[serde(default)]
    pub(crate) neighbours: bool,
    #[serde(default)]
    pub(crate) misled: Option<String>,
}
