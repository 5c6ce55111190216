//! The table of live resources: a pure function of a stream of [`Event`]s, and the one of this
//! process.
//!
//! Nothing in it knows CUDA or calls anything outside the process; every source of events enters
//! through [`Ledger::apply`].

use std::sync::LazyLock;

pub use gpu_leak_core::ledger::{
    Amount, Anomaly, ContextEntry, Counted, Curve, Event, Holding, Kind, Layer, Ledger, Mark,
    MeterReading, Place, PoolName, Record, Released, Sample, ScopeId, SiteUsage, StackId, Stacks,
    UsageKey, Watch, event, script,
};

use crate::quiet::quiet;

/// The ledger of this process, which every live source reports to.
pub fn live() -> &'static Ledger {
    static LIVE: LazyLock<Ledger> = LazyLock::new(|| {
        let _quiet = quiet();
        Ledger::new()
    });
    &LIVE
}
