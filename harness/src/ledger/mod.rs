//! The table of live resources: a pure function of a stream of [`Event`]s.
//!
//! Nothing here knows CUDA or calls anything outside the process; every source of events enters
//! through [`Ledger::apply`].

mod anomaly;
mod apply;
mod awaited;
mod contexts;
mod counters;
pub mod event;
mod flights;
mod graphs;
mod holds;
mod kind;
mod lifetime;
mod meter;
mod name;
mod physical;
mod pool;
mod primaries;
mod record;
mod scopes;
pub mod script;
mod shared;
mod stack;
mod stripes;
mod table;
mod tap;
mod timeline;

use std::sync::LazyLock;

use crate::quiet::quiet;

pub use anomaly::{Anomaly, Mark};
pub use apply::{HandedOver, Ledger, Returned};
pub use awaited::Released;
pub use contexts::ContextEntry;
pub use counters::{Counted, Counters, Course};
pub use event::{Event, ScopeId, StackId};
pub use kind::Kind;
pub use meter::{SiteTaken, Taken};
pub use name::{Layer, Place};
pub use physical::Holding;
pub use pool::PoolName;
pub use record::Record;
pub use stack::Stacks;
pub(crate) use stripes::steps;
pub use timeline::{Bucket, Curve, Watch};

/// The ledger of this process, which every live source reports to.
pub fn live() -> &'static Ledger {
    static LIVE: LazyLock<Ledger> = LazyLock::new(|| {
        let _quiet = quiet();
        Ledger::new()
    });
    &LIVE
}
