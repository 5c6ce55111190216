//! What a device held before a check and after it.

use serde::{Deserialize, Serialize};

use super::Part;
use crate::ledger::Place;

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
