//! The table of live resources, a pure function of a stream of [`Event`]s.
//!
//! The ledger calls neither a driver nor anything else outside the process. Every event enters
//! through [`Ledger::apply`].

mod anomaly;
mod apply;
mod contexts;
pub mod event;
mod figures;
mod free_log;
mod graphs;
mod holds;
mod kind;
mod meter;
mod name;
mod physical;
mod quiet_lock;
mod scopes;
pub mod script;
mod shard;
mod shared;
mod stack;
mod table;
mod tap;
mod timeline;
mod usage;

pub use anomaly::{Anomaly, FailedCall, Mark};
pub use apply::{EventListener, Ledger, Snapshot};
pub use contexts::{ContextEntry, sticky_error};
pub use event::{Event, Record, ScopeId, StackId};
pub use free_log::{LoggedFree, UnknownFree};
pub use kind::Kind;
pub use meter::{GraphUsage, InTurn, Lifetime, MeterReading, SiteUsage};
pub use name::{Layer, Place, PoolName};
pub use physical::Holding;
pub use stack::Stacks;
pub use table::Watch;
pub use timeline::{Curve, Sample};
pub use usage::{Amount, Counted, UsageKey};
