//! The usage of a device before and after a check.

use serde::{Deserialize, Serialize};

use crate::ledger::Place;

/// The usage of a device, with a row for each layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct DeviceTable {
    /// The device, such as `cuda:0`.
    pub place: Place,
    /// The name of the device, such as `NVIDIA H200`. None if it is unknown.
    pub name: Option<String>,
    /// Its UUID: `GPU-5f2c0d4e-…`. Reports print the first part.
    pub uuid: Option<String>,
    /// Its rows, the driver first.
    pub rows: Vec<Row>,
    /// The usage of the whole device. None if it was not read or other processes use the device.
    pub whole: Option<WholeDevice>,
}

/// The memory in use on a device by all its users, and the known parts of the difference. This is
/// advice that no verdict depends on, because the driver and other processes also hold memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct WholeDevice {
    /// Whether this describes the second run of the body, because the first began without a context
    /// on the device.
    pub second_run: bool,
    /// Bytes in use before the body.
    pub baseline: u64,
    /// Bytes in use after it.
    pub after: u64,
    /// The part of the difference that is accounted for.
    pub parts: Vec<Part>,
    /// The rest of the difference in bytes, as far as this process knows.
    pub unexplained: i64,
    /// Possible causes of the rest: `2 modules were loaded`.
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
    /// The peak in between. None if it is not tracked.
    pub peak: Option<u64>,
}

named! {
    /// The unit that a row counts.
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
