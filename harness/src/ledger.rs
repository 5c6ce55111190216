//! The ledger of this process, and the names in findings: places, layers and kinds of resources.
//!
//! The ledger is the table of live resources. It is a pure function of a stream of events, knows
//! nothing of CUDA, and calls nothing outside the process.

use std::sync::LazyLock;

// These types appear in findings.
pub use gpu_leak_core::ledger::{Amount, Kind, Layer, Place, PoolName};
// This is the ledger itself, which the command and the tests of this crate use.
#[doc(hidden)]
pub use gpu_leak_core::ledger::{
    Anomaly, ContextEntry, Counted, Curve, Event, FailedCall, GraphUsage, Holding, InTurn, Ledger,
    Lifetime, LoggedFree, Mark, MeterReading, Record, Sample, ScopeId, SiteUsage, Snapshot,
    StackId, Stacks, UnknownFree, UsageKey, Watch, event, script,
};

use crate::recursion_guard::quiet;

/// Returns the ledger of this process, to which every live source reports.
#[doc(hidden)]
pub fn live() -> &'static Ledger {
    static LIVE: LazyLock<Ledger> = LazyLock::new(|| {
        let _quiet = quiet();
        Ledger::new()
    });
    &LIVE
}
