//! Meters allocations on request. A meter measures the peak, the allocations that were live at the
//! peak and when they were made, the allocations that could have shared a buffer, and the total
//! number and bytes of all allocations. A budget meters the allocations of its scope in one layer.
//! A log meters everything in the process, including resources that are live when it begins, and
//! keeps a bounded number of lifetimes. While no budget or log is active, metering costs one
//! additional load per event.

mod flow;

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use self::flow::Flow;
use super::event::{Record, ScopeId, StackId};
use super::name::{Layer, Place};
use super::quiet_lock::{QuietLock, lock_quietly};
use super::usage::Amount;
use crate::recursion_guard::quiet;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// The largest number of graphs that a log keeps.
const MAX_GRAPHS: usize = 16;

#[derive(Debug, Default)]
pub struct Meters {
    running: AtomicUsize,
    /// How many of the active meters are logs.
    logs: AtomicUsize,
    meters: Mutex<Running>,
}

/// The active meters. There are few: one for each active budget or log.
#[derive(Debug, Default)]
pub(super) struct Running(Vec<Meter>);

#[derive(Debug)]
struct Meter {
    /// The scope that requested the meter.
    owner: ScopeId,
    /// The layer of a budget, and every scope whose allocations count: the owner and its
    /// descendants. `None` for a log of everything.
    budget: Option<(Layer, FxHashSet<ScopeId>)>,
    /// The event with which a log began.
    began: u64,
    flows: BTreeMap<(Layer, Place), Flow>,
    /// The graphs that were instantiated and hold more memory than they would need if their nodes
    /// ran in order. Empty for a budget.
    graphs: Vec<GraphUsage>,
}

impl Meters {
    /// Begins to meter the usage of `scope` in `layer`.
    pub fn begin(&self, scope: ScopeId, layer: Layer) {
        let counted = FxHashSet::from_iter([scope]);
        self.add(Meter::new(scope, Some((layer, counted))));
    }

    /// Begins a log of everything for `scope`, starting with the resources that are live now, before
    /// the event `now`. The caller holds the locks of all records.
    pub(super) fn begin_log<'a>(
        &self,
        scope: ScopeId,
        live: impl Iterator<Item = &'a Record>,
        now: u64,
    ) {
        let mut log = Meter::new(scope, None);
        log.began = now;
        for record in live.filter(|record| !record.made.kind.is_handle()) {
            log.flow(record).held_before(record);
        }
        self.add(log);
        self.logs.fetch_add(1, Ordering::Relaxed);
    }

    fn add(&self, meter: Meter) {
        lock_quietly(&self.meters).0.push(meter);
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// From now on, the usage of `inner`, which has not allocated yet, also counts towards `outer`.
    pub fn nest(&self, inner: ScopeId, outer: ScopeId) {
        if self.running.load(Ordering::Relaxed) == 0 {
            return;
        }
        for meter in &mut lock_quietly(&self.meters).0 {
            if let Some((_, counted)) = &mut meter.budget
                && counted.contains(&outer)
            {
                counted.insert(inner);
            }
        }
    }

    /// From now on, the live `record` of a scope not metered for `outer` also counts towards
    /// `outer`, and so do later allocations of the record's scope. The record does not count as an
    /// allocation.
    pub fn adopt(&self, record: &Record, outer: ScopeId) {
        let _quiet = quiet();
        let Some(mut running) = self.of(record) else {
            return;
        };
        for meter in &mut running.0 {
            if let Some((layer, counted)) = &mut meter.budget
                && *layer == record.made.layer
                && counted.contains(&outer)
            {
                counted.insert(record.made.caller.scope);
                meter.flow(record).gain(record, record.sequence, false);
            }
        }
    }

    /// Ends a scope's meter, if it has one. Resources that the scope leaves still count towards its
    /// ancestors until they are freed.
    pub fn end(&self, scope: ScopeId) -> Vec<MeterReading> {
        let _quiet = quiet();
        let ended = self.take(scope, false);
        ended.map_or_else(Vec::new, |meter| meter.readings())
    }

    /// Reads a scope's log, without ending it. The result has the readings by layer and place, and
    /// the graphs that hold more memory than they would need if their nodes ran in order.
    pub fn log(&self, scope: ScopeId) -> (Vec<MeterReading>, Vec<GraphUsage>) {
        let running = lock_quietly(&self.meters);
        let log = running.0.iter().find(|meter| meter.is_it(scope, true));
        log.map(|log| (log.readings(), log.graphs.clone()))
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
            for log in &mut lock_quietly(&self.meters).0 {
                let is_full = log.graphs.len() >= MAX_GRAPHS;
                if log.budget.is_none() && !is_full && !log.graphs.contains(&usage) {
                    log.graphs.push(usage.clone());
                }
            }
        }
    }

    /// Ends a scope's log, if it has one.
    pub fn end_log(&self, scope: ScopeId) {
        // The log was allocated under the recursion guard, and is freed under it.
        let _quiet = quiet();
        if self.take(scope, true).is_some() {
            self.logs.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn take(&self, scope: ScopeId, is_log: bool) -> Option<Meter> {
        if self.running.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let running = &mut lock_quietly(&self.meters).0;
        let at = running.iter().position(|it| it.is_it(scope, is_log))?;
        self.running.fetch_sub(1, Ordering::Relaxed);
        Some(running.swap_remove(at))
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
        for meter in self.0.iter_mut().filter(|it| it.counts(record)) {
            meter.flow(record).gain(record, at, is_new);
        }
    }

    /// Records that the event `at` removed a record.
    pub(super) fn lost(&mut self, record: &Record, at: u64) {
        for meter in self.0.iter_mut().filter(|it| it.counts(record)) {
            meter.flow(record).lose(record, at, true);
        }
    }

    /// Records that a record no longer belongs to its scope.
    pub(super) fn disowned(&mut self, record: &Record, at: u64) {
        let is_of_budget = |it: &&mut Meter| it.budget.is_some() && it.counts(record);
        for meter in self.0.iter_mut().filter(is_of_budget) {
            meter.flow(record).lose(record, at, false);
        }
    }
}

impl Meter {
    fn new(owner: ScopeId, budget: Option<(Layer, FxHashSet<ScopeId>)>) -> Self {
        Self {
            owner,
            budget,
            began: 0,
            flows: BTreeMap::new(),
            graphs: Vec::new(),
        }
    }

    fn is_it(&self, owner: ScopeId, is_log: bool) -> bool {
        self.owner == owner && self.budget.is_none() == is_log
    }

    fn counts(&self, record: &Record) -> bool {
        let made = &record.made;
        self.budget.as_ref().is_none_or(|(layer, counted)| {
            *layer == made.layer && counted.contains(&made.caller.scope)
        })
    }

    fn flow(&mut self, record: &Record) -> &mut Flow {
        let key = (record.made.layer, record.made.place);
        let logged_since = self.budget.is_none().then_some(self.began);
        let flow = self.flows.entry(key);
        flow.or_insert_with(|| Flow::new(logged_since))
    }

    fn readings(&self) -> Vec<MeterReading> {
        let readings = self.flows.iter().map(|(key, flow)| flow.reading(*key));
        readings.collect()
    }
}

/// The lifetime of an allocation, from its creation to its free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifetime {
    /// The call stack of the allocating call.
    pub stack: StackId,
    /// The size of the allocation in bytes.
    pub bytes: u64,
    /// The event that created the allocation, or 0 if the allocation was live when the log began.
    pub allocated: u64,
    /// The event that freed the allocation, or 0 if the allocation is still live.
    pub freed: u64,
}

/// The usage of one layer at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterReading {
    /// The layer.
    pub layer: Layer,
    /// The place.
    pub place: Place,
    /// The number of allocations.
    pub made: u64,
    /// The bytes of all allocations, whether or not they were freed.
    pub total: u64,
    /// The most bytes that were live at once.
    pub peak: u64,
    /// The event that reached the peak, or 0 if the usage was highest at the beginning.
    pub peak_at: u64,
    /// The contents of the peak, largest first.
    pub at_peak: Vec<SiteUsage>,
    /// All allocations by call site, the most bytes first.
    pub by_bytes: Vec<SiteUsage>,
    /// Allocations that could have shared a buffer.
    pub in_turn: Vec<InTurn>,
    /// The lifetimes, if this is the reading of a log.
    pub lifetimes: Vec<Lifetime>,
    /// How many lifetimes were not kept.
    pub lost: u64,
}

/// The contribution of one call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteUsage {
    /// The stack.
    pub stack: StackId,
    /// The number of allocations.
    pub count: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The events that allocated the first and the last of the records live at the peak, or 0 for
    /// records that were live when the log began.
    #[serde(default)]
    pub allocated: (u64, u64),
}

/// The memory of a graph's nodes at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphUsage {
    /// The place.
    pub place: Place,
    /// The bytes of all addresses that the graph's nodes allocate. The driver gives an allocation
    /// the addresses of an earlier one if it knows that the earlier one has been freed by then. So
    /// memory with separate addresses is held at the same time.
    pub bytes: u64,
    /// The most bytes that are live at once if the nodes run in the order in which they were added.
    pub in_order: u64,
    /// The nodes that allocate, largest first.
    pub sites: Vec<SiteUsage>,
}

/// Allocations of one size by one thread at one stack, each of which was freed before the next was
/// made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InTurn {
    /// The stack.
    pub stack: StackId,
    /// The size of each allocation.
    pub bytes: u64,
    /// The number of allocations.
    pub count: u64,
}

impl SiteUsage {
    pub(super) fn of(stack: StackId, amount: Amount) -> Self {
        Self {
            stack,
            count: amount.count,
            bytes: amount.bytes,
            allocated: (0, 0),
        }
    }
}

#[cfg(test)]
mod tests;
