//! The table of live resources, which is a pure function of a stream of [`Event`]s, and the table
//! of this process.
//!
//! The ledger knows nothing of CUDA and calls nothing outside the process. Every source of events
//! enters through [`Ledger::apply`].

use std::sync::LazyLock;

pub use gpu_leak_core::ledger::{
    Amount, Anomaly, ContextEntry, Counted, Curve, Event, Holding, Kind, Layer, Ledger, Mark,
    MeterReading, Place, PoolName, Record, Released, Sample, ScopeId, SiteUsage, StackId, Stacks,
    UsageKey, Watch, event, script,
};

use crate::recursion_guard::quiet;

/// Returns the ledger of this process, to which every live source reports.
pub fn live() -> &'static Ledger {
    static LIVE: LazyLock<Ledger> = LazyLock::new(|| {
        let _quiet = quiet();
        Ledger::new()
    });
    &LIVE
}
