//! Meters allocations on request. A meter reads the peak, its contents and their age, the
//! allocations that could have shared a buffer, and the total number and bytes of all allocations.
//! A budget meters the allocations of its scope in one layer. A log meters everything in the
//! process, including resources that are live when it begins, and keeps a bounded number of
//! lifetimes. While neither is active, metering costs one additional load per event.

mod flow;
mod reading;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use self::flow::Flow;
pub use self::reading::{GraphUsage, InTurn, Lifetime, MeterReading, SiteUsage};
use super::event::{Record, ScopeId};
use super::name::{Layer, Place};
use crate::recursion_guard::{QuietLock, lock_quietly};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// How many graphs are kept.
const MAX_GRAPHS: usize = 16;

#[derive(Debug, Default)]
pub struct Meters {
    running: AtomicUsize,
    /// How many of the active meters are logs.
    logs: AtomicUsize,
    meters: Mutex<Running>,
}

#[derive(Debug, Default)]
pub(super) struct Running {
    by_scope: FxHashMap<ScopeId, Meter>,
    /// The meters that count the allocations of a scope: its own and those of its ancestors. A
    /// scope's allocations may be freed after it has ended, so an entry stays while these meters
    /// are active.
    counted_by: FxHashMap<ScopeId, Vec<ScopeId>>,
    /// The logs, by the scope that requested each.
    logs: FxHashMap<ScopeId, Log>,
}

/// A log of everything.
#[derive(Debug, Default)]
struct Log {
    flows: Flows,
    /// The graphs that were instantiated and hold more memory than they would need if their nodes
    /// ran in order.
    graphs: Vec<GraphUsage>,
}

type Flows = BTreeMap<(Layer, Place), Flow>;

/// The usage of one scope in one layer.
#[derive(Debug)]
struct Meter {
    layer: Layer,
    /// Every scope whose allocations it counts.
    scopes: Vec<ScopeId>,
    flows: Flows,
}

impl Meters {
    /// Begins to meter the usage of `scope` in `layer`.
    pub fn begin(&self, scope: ScopeId, layer: Layer) {
        let meter = Meter {
            layer,
            scopes: vec![scope],
            flows: Flows::new(),
        };
        let mut running = lock_quietly(&self.meters);
        running.by_scope.insert(scope, meter);
        running.counted_by.entry(scope).or_default().push(scope);
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// Begins a log of everything for `scope`, starting with the resources that are live now. The
    /// caller holds the locks of all records.
    pub(super) fn begin_log<'a>(&self, scope: ScopeId, live: impl Iterator<Item = &'a Record>) {
        let mut log = Log::default();
        for record in live.filter(|record| !record.made.kind.is_handle()) {
            log.flow(record).held_before(record);
        }
        lock_quietly(&self.meters).logs.insert(scope, log);
        self.logs.fetch_add(1, Ordering::Relaxed);
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the usage of `inner`, which has not allocated yet, for `outer` as well.
    pub fn nest(&self, inner: ScopeId, outer: ScopeId) {
        if self.running.load(Ordering::Relaxed) == 0 {
            return;
        }
        let running = &mut *lock_quietly(&self.meters);
        for metered in running.counted_by.get(&outer).cloned().unwrap_or_default() {
            let by = running.counted_by.entry(inner).or_default();
            if !by.contains(&metered)
                && let Some(meter) = running.by_scope.get_mut(&metered)
            {
                by.push(metered);
                meter.scopes.push(inner);
            }
        }
    }

    /// Ends a scope's meter, if it has one. Resources that the scope leaves still count for its
    /// ancestors until they are freed.
    pub fn end(&self, scope: ScopeId) -> Vec<MeterReading> {
        if self.running.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let running = &mut *lock_quietly(&self.meters);
        let Some(meter) = running.by_scope.remove(&scope) else {
            return Vec::new();
        };
        for counted in meter.scopes {
            if let Some(by) = running.counted_by.get_mut(&counted) {
                by.retain(|metered| *metered != scope);
                if by.is_empty() {
                    running.counted_by.remove(&counted);
                }
            }
        }
        self.running.fetch_sub(1, Ordering::Relaxed);
        readings(&meter.flows)
    }

    /// Reads a scope's log, without ending it.
    pub fn log(&self, scope: ScopeId) -> (Vec<MeterReading>, Vec<GraphUsage>) {
        let running = lock_quietly(&self.meters);
        let log = running.logs.get(&scope);
        log.map(|log| (readings(&log.flows), log.graphs.clone()))
            .unwrap_or_default()
    }

    pub(super) fn has_log(&self) -> bool {
        self.logs.load(Ordering::Relaxed) != 0
    }

    /// Records that a graph with this memory was instantiated.
    pub(super) fn instantiated(&self, usage: Vec<GraphUsage>) {
        for usage in usage
            .into_iter()
            .filter(|usage| usage.bytes > usage.in_order)
        {
            for log in lock_quietly(&self.meters).logs.values_mut() {
                if log.graphs.len() < MAX_GRAPHS && !log.graphs.contains(&usage) {
                    log.graphs.push(usage.clone());
                }
            }
        }
    }

    /// Ends a scope's log, if it has one.
    pub fn end_log(&self, scope: ScopeId) {
        if self.running.load(Ordering::Relaxed) != 0
            && lock_quietly(&self.meters).logs.remove(&scope).is_some()
        {
            self.logs.fetch_sub(1, Ordering::Relaxed);
            self.running.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the active meters, if there are any and `record` has bytes.
    pub(super) fn of(&self, record: &Record) -> Option<QuietLock<'_, Running>> {
        let is_metered = self.running.load(Ordering::Relaxed) != 0 && !record.made.kind.is_handle();
        is_metered.then(|| lock_quietly(&self.meters))
    }
}

impl Running {
    /// Records that the event `at` made a record live. `is_new` says whether the record is new or
    /// was restored.
    pub(super) fn gained(&mut self, record: &Record, at: u64, is_new: bool) {
        self.for_each_budget(record, |flow| flow.gain(record, at, is_new));
        for log in self.logs.values_mut() {
            log.flow(record).gain(record, at, is_new);
        }
    }

    /// Records that the event `at` removed a record.
    pub(super) fn lost(&mut self, record: &Record, at: u64) {
        self.disowned(record, at);
        for log in self.logs.values_mut() {
            log.flow(record).lose(record, at);
        }
    }

    /// Records that a record no longer belongs to its scope.
    pub(super) fn disowned(&mut self, record: &Record, at: u64) {
        self.for_each_budget(record, |flow| flow.lose(record, at));
    }

    fn for_each_budget(&mut self, record: &Record, mut change: impl FnMut(&mut Flow)) {
        let made = &record.made;
        for metered in self
            .counted_by
            .get(&made.caller.scope)
            .into_iter()
            .flatten()
        {
            if let Some(meter) = self.by_scope.get_mut(metered)
                && meter.layer == made.layer
            {
                change(meter.flows.entry((made.layer, made.place)).or_default());
            }
        }
    }
}

impl Log {
    fn flow(&mut self, record: &Record) -> &mut Flow {
        let key = (record.made.layer, record.made.place);
        self.flows.entry(key).or_insert_with(Flow::with_log)
    }
}

fn readings(flows: &Flows) -> Vec<MeterReading> {
    let readings = flows.iter().map(|(key, flow)| flow.reading(*key));
    readings.collect()
}

#[cfg(test)]
mod tests;
