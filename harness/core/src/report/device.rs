//! The usage of a device before and after a check, and how usage changed in between.

use serde::{Deserialize, Serialize};

#[cfg(doc)]
use super::When;
use crate::ledger::Place;

/// The usage of a device, with a row for each layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct DeviceTable {
    /// The device, such as `cuda:0`.
    pub place: Place,
    /// The name of the device, such as `NVIDIA H200`. None if it is unknown.
    pub name: Option<String>,
    /// The UUID of the device: `GPU-5f2c0d4e-…`. Reports print the first part.
    pub uuid: Option<String>,
    /// The rows of the table, the driver first.
    pub rows: Vec<Row>,
    /// The usage of the whole device. None if it was not read both before and after the check.
    pub whole: Option<WholeDevice>,
}

/// The memory in use on a device, by all processes, before and after the body, and the known parts
/// of the difference. This is only advice: no verdict depends on it, because the driver and other
/// processes also hold memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct WholeDevice {
    /// Whether this describes the second run of the body, because the first began without a context
    /// on the device.
    pub second_run: bool,
    /// Bytes in use before the body.
    pub baseline: u64,
    /// Bytes in use after the body.
    pub after: u64,
    /// The parts of the difference that are accounted for.
    pub parts: Vec<Part>,
    /// The rest of the difference in bytes, as far as this process knows.
    pub unexplained: i64,
    /// Possible causes of the rest: `2 more modules loaded`.
    pub hints: Vec<String>,
}

/// One row of the table of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Row {
    /// The layer: `driver`, `pool 0`, `allocator:cubecl` or `handles`.
    pub layer: String,
    /// What is counted.
    pub figure: Figure,
    /// The value before the body ran.
    pub baseline: u64,
    /// The value after the body ran.
    pub after: u64,
    /// The peak between `baseline` and `after`. None if it is not tracked.
    pub peak: Option<u64>,
}

named! {
    /// The kind of value that a row contains.
    #[serde(rename_all = "kebab-case")]
    pub enum Figure {
        /// Bytes handed out and not freed.
        Allocated = "allocated",
        /// Bytes held from the layer below.
        Reserved = "reserved",
        /// Objects.
        Handles = "handles",
    }
}

named! {
    /// The purpose of a part of a device's memory.
    #[serde(rename_all = "kebab-case")]
    #[non_exhaustive]
    pub enum Purpose {
        /// Allocated through the driver.
        Driver = "driver",
        /// Held by stream-ordered pools in addition to the memory that they have handed out.
        PoolReserve = "pool reserve",
        /// Reserved for graphs.
        GraphReserve = "graph reserve",
        /// The local memory of all threads that can run at once.
        LocalMemory = "local memory of kernels",
        /// The buffer of `printf` in kernels.
        Printf = "printf buffer",
        /// The heap that kernels allocate from.
        Heap = "device heap",
        /// The unused rest of partly used pages.
        Pages = "whole pages",
    }
}

/// A part of the change of a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Part {
    /// The purpose of this part.
    pub purpose: Purpose,
    /// The change in bytes. Negative if less is in use than before.
    pub bytes: i64,
}

/// A primary context that a test still retains. This is not a finding, because the whole process
/// shares that context, and the first user of the device creates and keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PrimaryKept {
    /// The device.
    pub place: Place,
    /// The number of retains minus the number of releases.
    pub times: u64,
}

/// How usage changed while the check ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Timeline {
    /// The runs of the body, in order.
    pub runs: Vec<TimelineRun>,
    /// The number of rounds that are omitted after the first ones.
    pub left_out: u64,
    /// The source lines to which [`LoggedAllocation`]s refer by index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
}

/// One run of the body. A time in it is the number of an allocating or freeing call of the process,
/// counted from 1, as in [`When`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct TimelineRun {
    /// The number of the run among the runs or rounds of the check, counted from 1.
    #[serde(default)]
    pub number: u64,
    /// The purpose of the run.
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
    /// The result of the run is judged.
    #[default]
    Judged,
    /// The run confirms the findings of the previous run.
    Confirming,
    /// The run is one of several rounds that are judged together.
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
    /// The number of allocations that are not listed. When the log is full, the smaller half is
    /// dropped.
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

/// An allocation: `[line, bytes, allocated, freed]`. The line is an index into [`Timeline::lines`].
/// The last two values are the calls that allocated and freed it. If `allocated` is 0, it was
/// allocated before the run; if `freed` is 0, it was not freed during the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct LoggedAllocation(pub usize, pub u64, pub u64, pub u64);
