//! The names of call sites, devices, threads and errors that the judgement and its report use.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::pairs;
use crate::call_site::allocators::{self, Allocator};
use crate::call_site::{is_cudas_own, site_of};
use crate::ledger::event::{CuResult, ThreadNumber};
use crate::ledger::{Kind, Place, StackId, sticky_error};
use crate::report::{Frame, Site};

/// The description of a device in reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceName {
    /// The model, for example `NVIDIA H200`.
    pub name: String,
    /// The UUID of the device in the form that nvidia-smi prints, `GPU-5f2c…`. `None` if the driver
    /// does not report it.
    pub uuid: Option<String>,
}

/// The names of call sites, devices, threads and errors in reports.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NameTable {
    /// The frames of each stack that a judgement may ask for.
    #[serde(with = "pairs")]
    pub frames: BTreeMap<StackId, Vec<Frame>>,
    /// The names of CUDA devices.
    #[serde(with = "pairs")]
    pub devices: BTreeMap<Place, DeviceName>,
    /// How many threads each device can run at once.
    #[serde(with = "pairs")]
    pub resident_threads: BTreeMap<Place, u64>,
    /// The names that the driver gives to errors.
    #[serde(with = "pairs")]
    pub errors: BTreeMap<CuResult, String>,
    /// The names of threads.
    #[serde(with = "pairs")]
    pub threads: BTreeMap<ThreadNumber, String>,
    /// The names that the program has given to objects, by the sequence number of their records.
    #[serde(with = "pairs")]
    pub labels: BTreeMap<u64, String>,
    /// The test that broke a context.
    pub broken_by: Option<String>,
    /// The other processes that are seen to use CUDA, such as `4242 (python3)`.
    pub neighbours: BTreeSet<String>,
}

impl NameTable {
    /// Returns the frames of a backtrace. The result is empty if they were not collected.
    pub fn frames(&self, stack: StackId) -> &[Frame] {
        self.frames.get(&stack).map_or(&[], Vec::as_slice)
    }

    /// Returns the call site of a backtrace where something of `kind` was allocated or freed.
    pub fn site(&self, stack: StackId, kind: Kind) -> Site {
        site_of(self.frames(stack).to_vec(), kind)
    }

    /// Whether one of CUDA's own libraries, rather than the program, made the call.
    pub fn is_cudas_own(&self, stack: StackId) -> bool {
        is_cudas_own(self.frames(stack))
    }

    /// Returns the known caching allocator that allocated memory at this backtrace.
    pub fn allocator(&self, stack: StackId) -> Option<&'static Allocator> {
        allocators::of(self.frames(stack))
    }

    /// Returns the name that the driver gives to an error.
    pub fn error(&self, error: CuResult) -> String {
        let known = self.errors.get(&error).map(String::as_str);
        let known = known.or_else(|| sticky_error(error));
        known.map_or_else(|| format!("CUresult {error}"), str::to_owned)
    }

    /// Returns the name of a thread.
    pub fn thread(&self, thread: ThreadNumber) -> String {
        let known = self.threads.get(&thread).cloned();
        known.unwrap_or_else(|| format!("thread {}", thread.0))
    }
}
