//! What a device held before a check and after it.

use serde::{Deserialize, Serialize};

use crate::ledger::Place;

/// What a device held, a row a layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Bytes handed out and not got back.
    Allocated,
    /// Bytes held from the layer below.
    Reserved,
    /// Objects.
    Handles,
}

/// What a part of a device's memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Purpose {
    /// Allocated through the driver.
    Driver,
    /// Held by stream-ordered pools beyond what they have handed out.
    PoolReserve,
    /// Held for graphs.
    GraphReserve,
    /// Local memory of the threads that can run at once.
    LocalMemory,
    /// The buffer of `printf` in kernels.
    Printf,
    /// The heap that kernels allocate from.
    Heap,
    /// The rest of pages that are partly used.
    Pages,
}

impl Purpose {
    /// Returns its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::PoolReserve => "pool reserve",
            Self::GraphReserve => "graph reserve",
            Self::LocalMemory => "local memory of kernels",
            Self::Printf => "printf buffer",
            Self::Heap => "device heap",
            Self::Pages => "whole pages",
        }
    }
}

/// A part of the change of a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Part {
    /// What it is for.
    pub purpose: Purpose,
    /// How many bytes more, or less, than before.
    pub bytes: i64,
}

/// That a test holds the primary context of a device. No finding: the whole process shares it, and
/// whoever needs the device first makes it and keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PrimaryKept {
    /// The device.
    pub place: Place,
    /// How often it was retained more than released.
    pub times: u64,
}
