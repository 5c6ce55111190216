//! Meters what is allocated while somebody wants to know: the peak, what was live at the peak and
//! since when, which allocations followed one another, and the number and the bytes of all.
//!
//! A budget meters what its scope allocates in one layer. A log meters everything in the process,
//! what is live when it begins included, and keeps a bounded number of lifetimes. Without either, an
//! event pays for one load.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::mem;

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::Amount;
use super::event::{Record, ScopeId, StackId, ThreadNumber};
use super::kind::Kind;
use super::name::{Layer, Place};

/// How many lifetimes a log keeps of each layer at each place, besides what is live and what was
/// live at the peak.
const MAX_LIFETIMES: usize = 2048;
/// How many different buffers are counted of each layer at each place.
const MAX_BUFFERS: usize = 4096;
/// How many graphs are kept.
const MAX_GRAPHS: usize = 16;

/// The active meters.
#[derive(Debug, Default)]
pub(super) struct Meters {
    running: AtomicUsize,
    /// How many of them are logs.
    logs: AtomicUsize,
    meters: Mutex<Running>,
}

#[derive(Debug, Default)]
pub(super) struct Running {
    by_scope: FxHashMap<ScopeId, Meter>,
    /// The meters that count what a scope allocates: its own and those of its ancestors. A scope's
    /// allocations may be freed after it has ended, so an entry stays while these meters are
    /// active.
    counted_by: FxHashMap<ScopeId, Vec<ScopeId>>,
    /// The logs, by the scope that asked for each.
    logs: FxHashMap<ScopeId, Log>,
}

/// A log of everything.
#[derive(Debug, Default)]
struct Log {
    flows: Flows,
    /// The graphs that were instantiated and hold more than their nodes need in their order.
    graphs: Vec<GraphUsage>,
}

type Flows = BTreeMap<(Layer, Place), Flow>;

/// What one scope uses in one layer.
#[derive(Debug)]
struct Meter {
    layer: Layer,
    /// Every scope whose allocations it counts.
    scopes: Vec<ScopeId>,
    flows: Flows,
}

/// The allocations and frees of one layer at one place.
#[derive(Debug, Default)]
struct Flow {
    /// Everything that was allocated, freed or not.
    made: Amount,
    live: u64,
    peak: u64,
    /// The event that reached the peak; 0 if nothing has exceeded what was live at the beginning.
    peak_at: u64,
    /// The number of allocations so far, and at the peak. Events of several threads may be applied in
    /// another order than that of their numbers, so these decide what was live at the peak.
    entered: u64,
    entered_at_peak: u64,
    /// What is live, by sequence number.
    held: FxHashMap<u64, Held>,
    /// What was live at the peak and has been freed since.
    since_peak: Vec<Lifetime>,
    sites: FxHashMap<StackId, Amount>,
    buffers: FxHashMap<Buffer, Uses>,
    log: Option<LifetimeLog>,
}

/// Something that is live.
#[derive(Clone, Copy, Debug)]
struct Held {
    life: Lifetime,
    /// Its number in the order in which they were applied; 0 if it was there before.
    entered: u64,
}

/// From its allocation to its free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifetime {
    /// Where it was allocated.
    pub stack: StackId,
    /// Its size.
    pub bytes: u64,
    /// The event that allocated it; 0 if it was live when the log began.
    pub allocated: u64,
    /// The event that freed it; 0 if it is live.
    pub freed: u64,
}

/// What is freed, of which the largest are kept.
#[derive(Debug, Default)]
struct LifetimeLog {
    freed: Vec<Lifetime>,
    /// How many were not kept.
    lost: u64,
}

/// What one buffer could serve: a thread's allocations of one size at one call site for one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Buffer {
    stack: StackId,
    bytes: u64,
    stream: u64,
    thread: ThreadNumber,
}

#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    made: u64,
    live: u64,
    most: u64,
}

/// What was used of one layer at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterReading {
    /// The layer.
    pub layer: Layer,
    /// The place.
    pub place: Place,
    /// The number of allocations.
    pub made: u64,
    /// Their bytes, freed or not.
    pub total: u64,
    /// The most bytes that were live at once.
    pub peak: u64,
    /// The event that reached the peak; 0 if it was there at the beginning.
    pub peak_at: u64,
    /// What was live at the peak, largest first.
    pub at_peak: Vec<SiteUsage>,
    /// All allocations by call site, the most bytes first.
    pub by_bytes: Vec<SiteUsage>,
    /// The same, the most allocations first.
    pub by_count: Vec<SiteUsage>,
    /// Allocations that followed one another.
    pub in_turn: Vec<InTurn>,
    /// Of a log, the lifetimes.
    pub lifetimes: Vec<Lifetime>,
    /// How many more there were.
    pub lost: u64,
}

/// The part that one stack has in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteUsage {
    /// The stack.
    pub stack: StackId,
    /// How many allocations.
    pub count: u64,
    /// How many bytes.
    pub bytes: u64,
    /// The events that allocated the first and the last of what was live at the peak; 0 for what was
    /// live when the log began, and unknown in recordings of older releases.
    #[serde(default)]
    pub allocated: (u64, u64),
}

/// The memory of a graph's nodes at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphUsage {
    /// The place.
    pub place: Place,
    /// The bytes of all addresses that its nodes allocate. The driver gives an allocation the addresses
    /// of an earlier one if it knows that the earlier one is freed by then; memory with addresses of its
    /// own is held at once.
    pub bytes: u64,
    /// The most that is allocated and not freed, in the order in which the nodes were added.
    pub in_order: u64,
    /// The nodes that allocate, largest first.
    pub sites: Vec<SiteUsage>,
}

/// Allocations of one size by one thread at one stack, each of which was freed before the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InTurn {
    /// The stack.
    pub stack: StackId,
    /// The size of each.
    pub bytes: u64,
    /// How many.
    pub count: u64,
}

impl Meters {
    fn lock(&self) -> MutexGuard<'_, Running> {
        self.meters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to meter what `scope` uses in `layer`.
    pub(super) fn begin(&self, scope: ScopeId, layer: Layer) {
        let meter = Meter {
            layer,
            scopes: vec![scope],
            flows: Flows::new(),
        };
        let mut running = self.lock();
        running.by_scope.insert(scope, meter);
        running.counted_by.entry(scope).or_default().push(scope);
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// Begins a log of everything for `scope`, with what is live now. The caller holds the locks of
    /// all records.
    pub(super) fn begin_log<'a>(&self, scope: ScopeId, live: impl Iterator<Item = &'a Record>) {
        let mut log = Log::default();
        for record in live.filter(|record| !record.made.kind.is_handle()) {
            log.flow(record).held_before(record);
        }
        self.lock().logs.insert(scope, log);
        self.logs.fetch_add(1, Ordering::Relaxed);
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what `inner`, which has not allocated yet, uses for `outer` as well.
    pub(super) fn nest(&self, inner: ScopeId, outer: ScopeId) {
        if self.running.load(Ordering::Relaxed) == 0 {
            return;
        }
        let running = &mut *self.lock();
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

    /// Ends a scope's meter, if it has one. What the scope has left still counts for its ancestors
    /// until it is freed.
    pub(super) fn end(&self, scope: ScopeId) -> Vec<MeterReading> {
        if self.running.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let running = &mut *self.lock();
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

    /// Reads a scope's log, which goes on.
    pub(super) fn log(&self, scope: ScopeId) -> (Vec<MeterReading>, Vec<GraphUsage>) {
        let running = self.lock();
        let log = running.logs.get(&scope);
        log.map(|log| (readings(&log.flows), log.graphs.clone()))
            .unwrap_or_default()
    }

    /// Whether there is a log.
    pub(super) fn has_log(&self) -> bool {
        self.logs.load(Ordering::Relaxed) != 0
    }

    /// Records that a graph with this memory was instantiated.
    pub(super) fn instantiated(&self, usage: Vec<GraphUsage>) {
        for usage in usage
            .into_iter()
            .filter(|usage| usage.bytes > usage.in_order)
        {
            for log in self.lock().logs.values_mut() {
                if log.graphs.len() < MAX_GRAPHS && !log.graphs.contains(&usage) {
                    log.graphs.push(usage.clone());
                }
            }
        }
    }

    /// Ends a scope's log, if it has one.
    pub(super) fn end_log(&self, scope: ScopeId) {
        if self.running.load(Ordering::Relaxed) != 0 && self.lock().logs.remove(&scope).is_some() {
            self.logs.fetch_sub(1, Ordering::Relaxed);
            self.running.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the active meters, if there are any and `record` has bytes.
    pub(super) fn of(&self, record: &Record) -> Option<MutexGuard<'_, Running>> {
        let is_metered = self.running.load(Ordering::Relaxed) != 0 && !record.made.kind.is_handle();
        is_metered.then(|| self.lock())
    }
}

impl Running {
    /// Records that the event `at` made a record live, which is new or was put back.
    pub(super) fn gained(&mut self, record: &Record, at: u64, is_new: bool) {
        self.for_each_budget(record, |flow| flow.gain(record, at, is_new));
        for log in self.logs.values_mut() {
            log.flow(record).gain(record, at, is_new);
        }
    }

    /// Records that a record is gone with the event `at`.
    pub(super) fn lost(&mut self, record: &Record, at: u64) {
        self.disowned(record, at);
        for log in self.logs.values_mut() {
            log.flow(record).lose(record, at);
        }
    }

    /// Records that a record does not belong to its scope any more.
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
        let new = || Flow {
            log: Some(LifetimeLog::default()),
            ..Flow::default()
        };
        let key = (record.made.layer, record.made.place);
        self.flows.entry(key).or_insert_with(new)
    }
}

fn readings(flows: &Flows) -> Vec<MeterReading> {
    let readings = flows.iter().map(|(key, flow)| flow.reading(*key));
    readings.collect()
}

impl Flow {
    /// Adds what was live when the log began.
    fn held_before(&mut self, record: &Record) {
        let life = Lifetime {
            stack: record.made.caller.stack,
            bytes: record.made.bytes,
            allocated: 0,
            freed: 0,
        };
        self.held.insert(record.sequence, Held { life, entered: 0 });
        self.live = self.live.saturating_add(life.bytes);
        self.peak = self.live;
    }

    fn gain(&mut self, record: &Record, at: u64, is_new: bool) {
        let (stack, bytes) = (record.made.caller.stack, record.made.bytes);
        if is_new {
            self.made.add(bytes);
            if self.log.is_none() {
                self.sites.entry(stack).or_default().add(bytes);
            }
        }
        self.entered += 1;
        let life = Lifetime {
            stack,
            bytes,
            allocated: record.sequence,
            freed: 0,
        };
        let entered = self.entered;
        self.held.insert(record.sequence, Held { life, entered });
        self.live = self.live.saturating_add(bytes);
        if self.live > self.peak {
            (self.peak, self.peak_at) = (self.live, at);
            self.entered_at_peak = entered;
            let freed = mem::take(&mut self.since_peak);
            if let Some(log) = &mut self.log {
                freed.into_iter().for_each(|life| log.add(life));
            }
        }
        if let Some(uses) = self.uses(record) {
            uses.made += u64::from(is_new);
            uses.live += 1;
            uses.most = uses.most.max(uses.live);
        }
    }

    /// What was live when the meter of a budget began is unknown here and is not metered.
    fn lose(&mut self, record: &Record, at: u64) {
        let Some(Held { mut life, entered }) = self.held.remove(&record.sequence) else {
            return;
        };
        self.live = self.live.saturating_sub(life.bytes);
        life.freed = at;
        if entered <= self.entered_at_peak {
            self.since_peak.push(life);
        } else if let Some(log) = &mut self.log {
            log.add(life);
        }
        if entered != 0
            && let Some(uses) = self.uses(record)
        {
            uses.live = uses.live.saturating_sub(1);
        }
    }

    /// Returns the uses of the buffer that could serve an allocation. Memory of graphs and memory
    /// that was allocated elsewhere is not the program's to reuse.
    fn uses(&mut self, record: &Record) -> Option<&mut Uses> {
        let made = &record.made;
        if matches!(made.kind, Kind::Graph | Kind::Registered | Kind::Imported) || made.bytes == 0 {
            return None;
        }
        let has_room = self.buffers.len() < MAX_BUFFERS;
        let buffer = Buffer {
            stack: made.caller.stack,
            bytes: made.bytes,
            stream: made.stream,
            thread: made.caller.thread,
        };
        match self.buffers.entry(buffer) {
            Entry::Occupied(uses) => Some(uses.into_mut()),
            Entry::Vacant(room) => has_room.then(|| room.insert(Uses::default())),
        }
    }

    fn reading(&self, (layer, place): (Layer, Place)) -> MeterReading {
        let held = self.held.values();
        let held = held.filter(|held| held.entered <= self.entered_at_peak);
        let mut at_peak: FxHashMap<(StackId, bool), SiteUsage> = FxHashMap::default();
        for life in held.map(|held| &held.life).chain(&self.since_peak) {
            let site = at_peak.entry((life.stack, life.allocated == 0));
            let site = site.or_insert_with(|| SiteUsage {
                allocated: (life.allocated, life.allocated),
                ..SiteUsage::of(life.stack, Amount::default())
            });
            site.count += 1;
            site.bytes = site.bytes.saturating_add(life.bytes);
            site.allocated.0 = site.allocated.0.min(life.allocated);
            site.allocated.1 = site.allocated.1.max(life.allocated);
        }
        let mut at_peak: Vec<_> = at_peak.into_values().collect();
        let sites = self.sites.iter();
        let mut by_bytes: Vec<_> = sites
            .map(|(stack, made)| SiteUsage::of(*stack, *made))
            .collect();
        at_peak.sort_by_key(|site| (Reverse(site.bytes), site.stack, site.allocated));
        by_bytes.sort_by_key(|site| (Reverse(site.bytes), site.stack));
        let mut by_count = by_bytes.clone();
        by_count.sort_by_key(|site| (Reverse(site.count), site.stack));
        let in_turn = self.buffers.iter();
        let in_turn = in_turn.filter(|(_, uses)| uses.most == 1 && uses.made > 1);
        let mut in_turn: Vec<_> = in_turn
            .map(|(buffer, uses)| InTurn {
                stack: buffer.stack,
                bytes: buffer.bytes,
                count: uses.made,
            })
            .collect();
        in_turn.sort_by_key(|it| (Reverse(it.bytes.saturating_mul(it.count - 1)), it.stack));
        let (lifetimes, lost) = self.lifetimes();
        MeterReading {
            layer,
            place,
            made: self.made.count,
            total: self.made.bytes,
            peak: self.peak,
            peak_at: self.peak_at,
            at_peak,
            by_bytes,
            by_count,
            in_turn,
            lifetimes,
            lost,
        }
    }

    /// Returns the lifetimes that the log has kept, and the number of the others.
    fn lifetimes(&self) -> (Vec<Lifetime>, u64) {
        let Some(log) = &self.log else {
            return (Vec::new(), 0);
        };
        let mut all = LifetimeLog {
            freed: Vec::new(),
            lost: log.lost,
        };
        let held = self.held.values().map(|held| held.life);
        held.chain(self.since_peak.iter().copied())
            .chain(log.freed.iter().copied())
            .for_each(|life| all.add(life));
        all.freed
            .sort_by_key(|life| (life.allocated, life.freed, life.stack, life.bytes));
        (all.freed, all.lost)
    }
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

impl LifetimeLog {
    /// Adds a lifetime. A full log loses the smaller half.
    fn add(&mut self, life: Lifetime) {
        self.freed.push(life);
        if self.freed.len() > MAX_LIFETIMES {
            let kept = MAX_LIFETIMES / 2;
            let size = |life: &Lifetime| (Reverse(life.bytes), life.allocated);
            self.freed.select_nth_unstable_by_key(kept, size);
            self.lost += (self.freed.len() - kept) as u64;
            self.freed.truncate(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        InTurn, Layer, Lifetime, MAX_LIFETIMES, MeterReading, Meters, Place, Record, ScopeId,
        SiteUsage, StackId,
    };
    use crate::ledger::Kind;
    use crate::ledger::event::{Caller, ContextUid, Creation, Key, Space, ThreadNumber};

    /// The allocation of event `at`.
    fn record(at: u64, scope: u32, stack: u32, bytes: u64) -> Record {
        let made = Creation {
            key: Key {
                space: Space::DevicePointer,
                value: at,
            },
            kind: Kind::Linear,
            layer: Layer::DRIVER,
            place: Place::cuda(0),
            bytes,
            context: ContextUid(1),
            stream: 0,
            pool: 0,
            caller: Caller {
                thread: ThreadNumber(1),
                scope: ScopeId(scope),
                stack: StackId(stack),
            },
        };
        Record { sequence: at, made }
    }

    impl Meters {
        fn took(&self, record: &Record) {
            if let Some(mut running) = self.of(record) {
                running.gained(record, record.sequence, true);
            }
        }

        fn gave_back(&self, record: &Record, at: u64) {
            if let Some(mut running) = self.of(record) {
                running.lost(record, at);
            }
        }
    }

    fn only(mut taken: Vec<MeterReading>) -> MeterReading {
        assert_eq!(taken.len(), 1);
        taken.remove(0)
    }

    fn site(stack: u32, count: u64, bytes: u64) -> SiteUsage {
        let stack = StackId(stack);
        SiteUsage {
            stack,
            count,
            bytes,
            allocated: (0, 0),
        }
    }

    fn at(allocated: (u64, u64), site: SiteUsage) -> SiteUsage {
        SiteUsage { allocated, ..site }
    }

    #[test]
    fn the_peak_is_told_with_what_was_alive_then() {
        let meters = Meters::default();
        meters.begin(ScopeId(1), Layer::DRIVER);
        let (small, large) = (record(1, 1, 1, 10), record(2, 1, 2, 100));
        meters.took(&small);
        meters.took(&large);
        // The peak: 110 bytes. What follows does not exceed it.
        meters.gave_back(&small, 3);
        meters.took(&record(4, 1, 3, 5));
        meters.gave_back(&large, 5);
        let taken = only(meters.end(ScopeId(1)));
        assert_eq!((taken.peak, taken.made, taken.total), (110, 3, 115));
        assert_eq!(taken.peak_at, 2);
        let at_peak = [at((2, 2), site(2, 1, 100)), at((1, 1), site(1, 1, 10))];
        assert_eq!(taken.at_peak, at_peak);
        let all = [site(2, 1, 100), site(1, 1, 10), site(3, 1, 5)];
        assert_eq!(taken.by_bytes, all);
    }

    /// Whatever comes and goes, the lines at the peak add up to it, and so do the lifetimes.
    #[test]
    fn what_was_live_at_the_peak_adds_up_to_it() {
        let meters = Meters::default();
        let before = [record(1, 9, 1, 1000), record(2, 9, 2, 500)];
        meters.begin_log(ScopeId(1), before.iter());
        let mut live = before.to_vec();
        let mut random = 7_u64;
        for now in 3..2000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let index = (random >> 33) as usize % live.len().max(1);
            if random >> 60 < 7 && !live.is_empty() {
                meters.gave_back(&live.swap_remove(index), now);
            } else {
                let new = record(now, 1, (random >> 40) as u32 % 5, (random >> 50) % 300);
                meters.took(&new);
                live.push(new);
            }
            let read = only(meters.log(ScopeId(1)).0);
            let told: u64 = read.at_peak.iter().map(|site| site.bytes).sum();
            assert_eq!(told, read.peak, "after {now}");
        }
        let read = only(meters.log(ScopeId(1)).0);
        assert_eq!(read.lost, 0);
        let is_live = |life: &&Lifetime| {
            life.allocated <= read.peak_at && (life.freed == 0 || life.freed > read.peak_at)
        };
        let live = read.lifetimes.iter().filter(is_live).map(|life| life.bytes);
        assert_eq!(live.sum::<u64>(), read.peak);
        meters.end_log(ScopeId(1));
        assert_eq!(meters.log(ScopeId(1)).0, []);
    }

    #[test]
    fn a_full_log_loses_what_is_small_and_still_knows_the_peak() {
        let meters = Meters::default();
        meters.begin_log(ScopeId(1), [].iter());
        let kept = record(1, 1, 1, 1 << 20);
        meters.took(&kept);
        let many = 4 * MAX_LIFETIMES as u64;
        for number in 1..=many {
            let short = record(2 * number, 1, 2, 1 + number % 7);
            meters.took(&short);
            meters.gave_back(&short, 2 * number + 1);
        }
        let read = only(meters.log(ScopeId(1)).0);
        assert_eq!(read.peak, (1 << 20) + 7);
        assert_eq!(
            read.at_peak.iter().map(|site| site.bytes).sum::<u64>(),
            read.peak
        );
        assert!(read.lifetimes.len() <= MAX_LIFETIMES);
        assert_eq!(read.lost + read.lifetimes.len() as u64, many + 1);
        assert!(read.lifetimes.iter().any(|life| life.bytes == 1 << 20));
    }

    #[test]
    fn allocations_follow_one_another_only_if_none_overlap() {
        let meters = Meters::default();
        meters.begin(ScopeId(1), Layer::DRIVER);
        for round in 0..5 {
            let in_turn = record(10 * round + 1, 1, 1, 8);
            meters.took(&in_turn);
            let (first, second) = (
                record(10 * round + 2, 1, 2, 8),
                record(10 * round + 3, 1, 2, 8),
            );
            meters.took(&first);
            meters.took(&second);
            for (record, number) in [(first, 4), (second, 5), (in_turn, 6)] {
                meters.gave_back(&record, 10 * round + number);
            }
            // Each has another size.
            let other = record(10 * round + 7, 1, 3, 1 + round);
            meters.took(&other);
            meters.gave_back(&other, 10 * round + 8);
        }
        let told = only(meters.end(ScopeId(1))).in_turn;
        let expected = InTurn {
            stack: StackId(1),
            bytes: 8,
            count: 5,
        };
        assert_eq!(told, [expected]);
    }

    #[test]
    fn a_scope_s_budget_holds_for_those_inside_it() {
        let meters = Meters::default();
        meters.begin(ScopeId(1), Layer::DRIVER);
        meters.nest(ScopeId(2), ScopeId(1));
        meters.took(&record(1, 2, 1, 7));
        assert_eq!(meters.end(ScopeId(2)), []);
        assert_eq!(only(meters.end(ScopeId(1))).peak, 7);
    }

    #[test]
    fn what_an_inner_scope_left_and_the_outer_frees_is_gone() {
        let meters = Meters::default();
        meters.begin(ScopeId(1), Layer::DRIVER);
        meters.nest(ScopeId(2), ScopeId(1));
        meters.begin(ScopeId(2), Layer::DRIVER);
        meters.nest(ScopeId(3), ScopeId(2));
        let left = record(1, 3, 1, 7);
        meters.took(&left);
        meters.end(ScopeId(3));
        assert_eq!(only(meters.end(ScopeId(2))).peak, 7);
        meters.gave_back(&left, 2);
        meters.took(&record(3, 1, 1, 7));
        assert_eq!(only(meters.end(ScopeId(1))).peak, 7);
    }

    #[test]
    fn nothing_is_kept_of_scopes_that_nobody_meters() {
        let meters = Meters::default();
        meters.begin(ScopeId(1), Layer::DRIVER);
        for (inner, outer) in [(11, 10), (12, 11), (13, 11), (2, 1)] {
            meters.nest(ScopeId(inner), ScopeId(outer));
        }
        meters.begin(ScopeId(12), Layer::DRIVER);
        for scope in [13, 11, 10] {
            meters.end(ScopeId(scope));
        }
        // It is metered by itself, whatever its former parent.
        meters.took(&record(1, 12, 1, 5));
        assert_eq!(only(meters.end(ScopeId(12))).peak, 5);
        let kept = |meters: &Meters| meters.lock().counted_by.len();
        assert_eq!(
            kept(&meters),
            2,
            "what is metered still, and the one inside it"
        );
        meters.end(ScopeId(1));
        assert_eq!(kept(&meters), 0);
    }

    #[test]
    fn others_and_what_was_there_before_do_not_count() {
        let meters = Meters::default();
        meters.begin(ScopeId(1), Layer::DRIVER);
        meters.took(&record(1, 2, 1, 7));
        meters.gave_back(&record(2, 1, 1, 7), 3);
        meters.took(&record(4, 1, 1, 3));
        assert_eq!(only(meters.end(ScopeId(1))).peak, 3);
    }

    #[test]
    fn what_is_put_back_was_not_made_anew() {
        let meters = Meters::default();
        meters.begin(ScopeId(1), Layer::DRIVER);
        let record = record(1, 1, 1, 7);
        meters.took(&record);
        meters.gave_back(&record, 2);
        if let Some(mut running) = meters.of(&record) {
            running.gained(&record, 3, false);
        }
        let taken = only(meters.end(ScopeId(1)));
        assert_eq!((taken.made, taken.total, taken.peak), (1, 7, 7));
        assert_eq!(taken.at_peak, [at((1, 1), site(1, 1, 7))]);
        assert_eq!(taken.in_turn, []);
    }
}
