//! The input of the judgement of one check, as data.
//!
//! A session collects this data, a recording stores it, and [`judge`](super::judge) is a function
//! of it. So the result of a check can be computed again from this data alone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::limits::{Limits, UsageOverBudget};
use super::names::NameTable;
use super::pairs;
use super::segments::SegmentMap;
use super::suppressions::{Date, Suppression};
use super::trend::Trend;
use super::usage::{LayerName, LayerUsage, Usage};
use crate::ledger::event::{CuResult, Key, ThreadNumber};
use crate::ledger::{
    Amount, Anomaly, GraphUsage, Holding, Kind, Layer, MeterReading, Place, Record, StackId,
};
use crate::report::{AllowedBy, Limit, PrimaryKept, Reason, TimelineRun};
use crate::units::total;

/// One check, from its first baseline to the end of its last run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CheckInput {
    /// The name and the location of the check.
    pub subject: Subject,
    /// The options that the test sets for itself.
    pub facts: Facts,
    /// The suppressions that apply.
    pub suppressions: Vec<Suppression>,
    /// The shipped suppressions, for memory that allocators and libraries keep until a whole
    /// program ends.
    pub kept_for_the_process: Vec<Suppression>,
    /// The runs of the body, in order. There is at least one.
    pub runs: Vec<RunInput>,
    /// Why calls to the driver could not be seen. `None` if they could be seen.
    pub untraced: Option<Untraced>,
    /// The trend of the snapshots of a whole program.
    pub trend: Option<Trend>,
    /// The names of stacks, devices, threads and errors.
    pub names: NameTable,
    /// The current date, for suppressions that expire.
    pub today: Date,
}

/// The name and the location of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The test's name as libtest prints it, or the name of a block or program.
    pub test: String,
    /// The file that contains the check.
    pub file: String,
    /// The line, counted from 1, or 0 for a program that was watched from outside.
    pub line: u32,
    /// The column, counted from 1.
    pub column: u32,
    /// The command that runs this check alone.
    pub again: Option<String>,
}

/// The options of a test, from its attribute and the configuration file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Bytes that may stay allocated, per device and layer, inclusive.
    pub tolerance: u64,
    /// Bytes that may stay reserved, per device and layer, inclusive.
    pub reserved_tolerance: u64,
    /// Limits on the test's own allocations.
    pub budget: Limits,
    /// How many times the body runs to detect growth. If it is 1, the test is judged by the
    /// resources that it leaves.
    pub rounds: u32,
    /// Whether findings must be confirmed by a second run.
    pub confirm: bool,
    /// The exact leak that the test must have.
    pub expect: Option<Expect>,
    /// Whether the check is a whole program that was watched from outside. Nothing ran before it
    /// and nothing comes after it, so memory that libraries keep until the process ends is not a
    /// leak.
    pub whole_program: bool,
}

/// One run of the body, between its baseline and its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunInput {
    /// When the run began, in the order of the ledger's events.
    pub began: u64,
    /// When the body ended, in the same order.
    pub ended: u64,
    /// Whether the body ended as expected.
    pub as_expected: bool,
    /// All usage before the body ran.
    pub baseline: Usage,
    /// All usage after the body, once everything that can be freed has been freed.
    pub end: Usage,
    /// The records that are live at the end and were created since the check's first run began.
    pub live: Vec<LiveRecord>,
    /// The records that were live when an interpreter began to shut down and have been freed since,
    /// if an interpreter runs the program.
    pub freed_by_shutdown: Vec<Record>,
    /// Events that are neither a plain allocation nor a plain free.
    pub anomalies: Vec<Anomaly>,
    /// The records that the run had already freed when a free of their address, or of an address
    /// inside them, failed. Empty unless the run logs frees.
    pub freed_before: Vec<Freed>,
    /// Frees of an address inside a live record, as an allocator reported them, in runs that log
    /// frees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub freed_inside: Vec<FreedInside>,
    /// The allocations of the run that were freed, grouped by the stacks of the allocating and of
    /// the freeing call. Empty unless the run logs frees and left something.
    pub freed_of_run: Vec<FreedAt>,
    /// For each stack that allocated a live record, how many times it allocated during the run.
    #[serde(with = "pairs")]
    pub allocations: BTreeMap<StackId, u64>,
    /// The budgets that the run exceeded.
    pub over_budget: Vec<UsageOverBudget>,
    /// The limits that could apply, because the run allocated something in their layer, or a reserve
    /// of that layer was read.
    #[serde(default)]
    pub bound: Vec<Limit>,
    /// The ranges that probed allocators held before the body ran.
    pub segments_before: SegmentMap,
    /// The ranges that probed allocators hold at the end.
    pub segments: SegmentMap,
    /// The allocators that have a probe.
    pub probed: Vec<String>,
    /// The handles and mappings that hold live physical memory.
    #[serde(with = "pairs")]
    pub holdings: BTreeMap<Key, Holding>,
    /// Sums that are not charged to the run, because a check inside it has already failed for them,
    /// or because only the further runs of such a check raised them.
    pub failed_inside: Vec<FailedSum>,
    /// Other activity in the process.
    pub others: Others,
    /// The amount allocated without an owner.
    pub owner_unknown: Amount,
    /// The amount allocated before the run and freed during it.
    pub freed_earlier: Amount,
    /// The amount that the run handed over to other code.
    pub handed_over: Amount,
    /// A context that failed before the body began.
    pub broken_before: Option<ContextError>,
    /// A context that failed while the body ran.
    pub broken_inside: Option<ContextError>,
    /// Primary contexts that the body retained more often than it released them.
    pub primaries: Vec<PrimaryKept>,
    /// The number of threads of the run that had not ended.
    pub threads_running: u64,
    /// Whether any source reported anything, or the figures of a probe changed.
    pub saw_events: bool,
    /// Whether a stream was being captured when the run began or ended. In that case, the reserves
    /// of CUDA's pools could not be released before they were read.
    #[serde(default)]
    pub is_capturing: bool,
    /// How usage changed over time.
    pub timeline: TimelineRun,
    /// The readings taken from the log of all allocations, in runs that have a log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peaks: Vec<MeterReading>,
    /// The graphs that were instantiated during the run and hold more memory than they would need
    /// if their nodes ran in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub graphs: Vec<GraphUsage>,
}

impl RunInput {
    /// Returns the total of `figure` over the entries of `failed_inside` for the layer and place of
    /// `usage`. These bytes are not charged to the run.
    pub(crate) fn failed_for(&self, usage: &LayerUsage, figure: fn(&FailedSum) -> u64) -> u64 {
        let failed = self.failed_inside.iter();
        let failed = failed.filter(|sum| sum.layer == usage.name && sum.place == usage.place);
        total(failed.map(figure))
    }

    /// Returns the number of calls that allocated or freed while the body ran, or 0 if the number
    /// is unknown.
    pub(crate) fn calls(&self) -> u64 {
        self.ended.saturating_sub(self.began)
    }
}

/// A record that the run freed, and where it was freed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Freed {
    /// The record.
    pub record: Record,
    /// The stack of the call that freed it.
    pub stack: StackId,
}

/// A free of an address inside a live record.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct FreedInside {
    /// The sequence number of the record.
    pub record: u64,
    /// The offset of the address from the record's start, in bytes.
    pub offset: u64,
    /// The stack of the call.
    pub stack: StackId,
}

/// The resources that were allocated at one stack and freed at another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreedAt {
    /// The allocator.
    pub layer: Layer,
    /// The kind of the freed resources.
    pub kind: Kind,
    /// The stack of the calls that allocated them.
    pub allocated: StackId,
    /// The stack of the calls that freed them.
    pub freed: StackId,
    /// The number of freed resources.
    pub count: u64,
    /// For each of these resources, the sequence number of the event that created it, the sequence
    /// number of the event after its free, and its size in bytes. Empty if there are too many, or
    /// if some frees of the run are not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<(u64, u64, u64)>,
}

/// A record that is live at the end of a run, with its owner.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LiveRecord {
    /// The record.
    #[serde(flatten)]
    pub record: Record,
    /// Its owner.
    pub owner: Ownership,
}

impl LiveRecord {
    /// Creates the entry for a record that the check itself owns.
    pub const fn own(record: Record) -> Self {
        Self {
            record,
            owner: Ownership::Session,
        }
    }
}

/// The owner of a record, as seen by the check that found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ownership {
    /// The check itself owns the record.
    Session,
    /// A thread outside any scope created the record while nothing but the check could run.
    Foreign(ThreadNumber),
    /// The check itself owns the record, which may stay because the code that created it, or a
    /// check inside this one, allows this particular object.
    Allowed(AllowedBy),
    /// The check created the record and has handed over the responsibility to free it.
    HandedOver,
    /// Another check owns the record: the check around this one, or a check inside it that has
    /// failed because of the record. The record is used only to explain an allocator's reserve.
    Another,
}

/// Other activity that may have taken place in the process during a run, as determined by the
/// harness in `check/turn/concurrency.rs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Others {
    /// Whether another check ran at the same time.
    pub checks: bool,
    /// Whether anything else could run, for example an unchecked test or a thread that an earlier
    /// test left.
    pub anything: bool,
}

impl Others {
    /// Whether another check or test could have changed a sum, since sums have no owner.
    pub const fn may_have_moved_sums(self) -> bool {
        self.checks || self.anything
    }
}

/// A sum that rose, and for which a check inside this one has already failed, or which only the
/// further runs of such a check raised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedSum {
    /// The layer.
    pub layer: LayerName,
    /// The place.
    pub place: Place,
    /// The allocated bytes in this sum.
    pub allocated: u64,
    /// The reserved bytes in this sum.
    pub reserved: u64,
}

/// Why the driver's calls could not be seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Untraced {
    /// Whether the calls were intercepted at first and missed later. If so, later events prove
    /// nothing.
    pub lost: bool,
    /// The reason, and what to do.
    pub reason: Reason,
    /// Whether the program uses the driver, so that there was something to intercept.
    pub driver_in_use: bool,
}

/// A context in which every call returns an error, because an earlier kernel failed in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextError {
    /// The device of the context.
    pub place: Place,
    /// The error.
    pub error: CuResult,
}

/// The leak that a test expects, as in `expect(count = 2, bytes = "1 MiB")`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expect {
    /// The number of objects and allocations that the test must leave behind.
    pub count: Option<u64>,
    /// The number of bytes that the test must leave behind.
    pub bytes: Option<u64>,
}

impl CheckInput {
    /// Returns the first run, whose baseline is the baseline of the whole check.
    pub fn first(&self) -> &RunInput {
        &self.runs[0]
    }

    /// Returns the runs that can be compared. A further run that did not end as expected is left
    /// out.
    pub fn judged_runs(&self) -> &[RunInput] {
        let further = self.runs.iter().skip(1);
        let valid = further.take_while(|run| run.as_expected).count();
        &self.runs[..1 + valid]
    }

    /// Whether a run that should have confirmed an earlier one did not end as expected.
    pub fn could_not_repeat(&self) -> bool {
        self.judged_runs().len() != self.runs.len()
    }

    /// Returns a context that was broken by this check or earlier. Every call in it fails.
    pub fn broken_context(&self) -> Option<ContextError> {
        let of_run = |run: &RunInput| run.broken_inside.or(run.broken_before);
        self.runs.iter().find_map(of_run)
    }

    /// Removes everything that was collected, because the run's settings switch checks off.
    pub fn switch_off(&mut self, why: Untraced) {
        for run in &mut self.runs {
            *run = RunInput {
                as_expected: run.as_expected,
                ..RunInput::default()
            };
        }
        self.untraced = Some(why);
    }

    /// Whether some calls may have been missed, so that a freed resource may look live.
    pub fn was_partly_intercepted(&self) -> bool {
        self.untraced.as_ref().is_some_and(|untraced| untraced.lost)
    }
}
