//! How usage changed while a check ran.

use serde::{Deserialize, Serialize};

use super::Figure;
#[cfg(doc)]
use super::{DeviceTable, Row, When};
use crate::ledger::Place;

/// How usage changed while the check ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Timeline {
    /// The runs of the body, in order.
    pub runs: Vec<TimelineRun>,
    /// The number of earlier rounds that are omitted.
    pub left_out: u64,
    /// The source lines that [`LoggedAllocation`]s name by their index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
}

/// One run of the body. A time in it is the number of an allocating or freeing call of the process,
/// counted from 1, as in [`When`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct TimelineRun {
    /// Its number among the runs or rounds of the check, counted from 1.
    #[serde(default)]
    pub number: u64,
    /// Its purpose.
    pub purpose: RunPurpose,
    /// The number of calls until everything that was going to be freed was freed.
    pub calls: u64,
    /// The number of calls until the body ended. During the remaining calls, the check emptied
    /// caches.
    pub body: u64,
    /// A curve for each figure that changed.
    pub curves: Vec<Course>,
}

/// The purpose of a run of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RunPurpose {
    /// Its result is judged.
    #[default]
    Judged,
    /// It confirms the findings of the previous run.
    Confirming,
    /// It is one of several rounds that are judged together.
    Round,
}

/// How one figure of [`DeviceTable`] changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Course {
    /// The device, or the host.
    pub place: Place,
    /// The layer, as in [`Row::layer`].
    pub layer: String,
    /// What is counted.
    pub figure: Figure,
    /// The value when the run began.
    pub start: u64,
    /// The exact peak. For reserved bytes, the largest value that was read.
    pub peak: u64,
    /// The points in the order of their calls, at most about 250. Reserved bytes have only the
    /// values that were read: before the body, at its end and after it.
    pub points: Vec<Point>,
    /// If the run had a log, the allocations and frees, in the order of the calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<LoggedAllocation>,
    /// How many other allocations there were. When the log is full, the smaller half is dropped.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub lost: u64,
}

impl Course {
    /// Returns the value at the end.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.points.last().map_or(self.start, |point| point.2)
    }
}

/// From this call up to the call of the next point, the figure was between the minimum and the
/// maximum: `[call, minimum, maximum]`. With up to a hundred calls, each call has its own point,
/// with one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Point(pub u64, pub u64, pub u64);

/// An allocation: `[line, bytes, allocated, freed]`. The line is an index of [`Timeline::lines`].
/// The calls are those that allocated and freed it. If `allocated` is 0, it was allocated before
/// the run; if `freed` is 0, it was not freed during the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct LoggedAllocation(pub usize, pub u64, pub u64, pub u64);
