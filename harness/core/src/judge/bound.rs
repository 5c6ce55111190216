//! Memory to which objects are bound.
//!
//! An object that has memory bound to it is judged with the size that it needs, and the memory is
//! not judged separately: an allocator may have put many objects into one allocation. Memory to
//! which nothing is bound is judged separately.

use rustc_hash::FxHashSet;

use super::input::RunInput;
use crate::ledger::event::{ContextUid, Space};
use crate::ledger::{Anomaly, Kind, Record};

/// Memory to which an object is bound, identified by the memory's device and handle. The object is
/// still live at the end of a run, or was destroyed together with its device.
#[derive(Debug, Default)]
pub(crate) struct BoundMemory(FxHashSet<(ContextUid, u64)>);

/// Whether memory is bound to this object. Such an object has a size in bytes.
pub(crate) fn is_bound(record: &Record) -> bool {
    record.made.pool != 0 && matches!(record.made.kind, Kind::Buffer | Kind::Image)
}

impl BoundMemory {
    pub(crate) fn of(run: &RunInput) -> Self {
        let live = run.live.iter().map(|live| &live.record);
        let ended = run.anomalies.iter().filter_map(Anomaly::ended);
        let bound = live.chain(ended).filter(|record| is_bound(record));
        Self(bound.map(|it| (it.made.context, it.made.pool)).collect())
    }

    /// Whether this is memory to which something is bound.
    pub(crate) fn has(&self, record: &Record) -> bool {
        let key = record.key();
        let is_memory = matches!(
            key.space,
            Space::Object {
                kind: Kind::Memory,
                ..
            }
        );
        is_memory && self.0.contains(&(record.made.context, key.value()))
    }
}
