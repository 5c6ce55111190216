//! Meters what scopes with a budget use: the peak, what was live at the peak, and the number and the
//! bytes of all allocations.
//!
//! Only such scopes are metered; all others pay for one load.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::Amount;
use super::event::{Record, ScopeId, StackId};
use super::name::{Layer, Place};

/// The active meters.
#[derive(Debug, Default)]
pub(super) struct Meters {
    running: AtomicUsize,
    meters: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    by_scope: FxHashMap<ScopeId, Meter>,
    /// The meters that count what a scope allocates: its own and those of its ancestors. A scope's
    /// allocations may be freed after it has ended, so an entry stays while these meters are
    /// active.
    counted_by: FxHashMap<ScopeId, Vec<ScopeId>>,
}

/// What one scope uses in one layer.
#[derive(Debug)]
struct Meter {
    layer: Layer,
    /// Every scope whose allocations it counts.
    scopes: Vec<ScopeId>,
    places: BTreeMap<Place, Flow>,
}

/// The allocations and frees at one place.
#[derive(Debug, Default)]
struct Flow {
    /// Everything that was allocated, freed or not.
    made: Amount,
    live: u64,
    peak: u64,
    sites: FxHashMap<StackId, SiteTotals>,
    /// How much each call site has gained (or lost) since the peak. From it the call sites at the
    /// peak are known without copying all of them at every new peak.
    since_peak: FxHashMap<StackId, SiteChange>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SiteTotals {
    made: Amount,
    live: Amount,
}

#[derive(Clone, Copy, Debug, Default)]
struct SiteChange {
    count: i64,
    bytes: i64,
}

/// What a metered scope used at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterReading {
    /// The place.
    pub place: Place,
    /// The number of allocations.
    pub made: u64,
    /// Their bytes, freed or not.
    pub total: u64,
    /// The most bytes that were live at once.
    pub peak: u64,
    /// What was live at the peak, largest first.
    pub at_peak: Vec<SiteUsage>,
    /// All allocations by call site, the most bytes first.
    pub by_bytes: Vec<SiteUsage>,
    /// The same, the most allocations first.
    pub by_count: Vec<SiteUsage>,
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
            places: BTreeMap::new(),
        };
        let mut running = self.lock();
        running.by_scope.insert(scope, meter);
        running.counted_by.entry(scope).or_default().push(scope);
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
        let places = meter.places.into_iter();
        places.map(|(place, flow)| flow.taken(place)).collect()
    }

    /// Records a new allocation.
    pub(super) fn took(&self, record: &Record) {
        self.change(record, |flow| {
            let site = flow.sites.entry(record.made.caller.stack).or_default();
            site.made.add(record.made.bytes);
            flow.made.add(record.made.bytes);
            flow.gain(record);
        });
    }

    /// Records that a failed free restored its record.
    pub(super) fn took_back(&self, record: &Record) {
        self.change(record, |flow| flow.gain(record));
    }

    /// Records that a record is gone.
    pub(super) fn gave_back(&self, record: &Record) {
        self.change(record, |flow| flow.lose(record));
    }

    fn change(&self, record: &Record, mut by: impl FnMut(&mut Flow)) {
        if self.running.load(Ordering::Relaxed) == 0 || record.made.kind.is_handle() {
            return;
        }
        let Running {
            by_scope,
            counted_by,
        } = &mut *self.lock();
        for metered in counted_by
            .get(&record.made.caller.scope)
            .into_iter()
            .flatten()
        {
            if let Some(meter) = by_scope.get_mut(metered)
                && meter.layer == record.made.layer
            {
                by(meter.places.entry(record.made.place).or_default());
            }
        }
    }
}

impl Flow {
    fn gain(&mut self, record: &Record) {
        let (stack, bytes) = (record.made.caller.stack, record.made.bytes);
        let site = self.sites.entry(stack).or_default();
        site.live.add(bytes);
        self.live = self.live.saturating_add(bytes);
        if self.live > self.peak {
            self.peak = self.live;
            self.since_peak.clear();
        } else {
            let change = self.since_peak.entry(stack).or_default();
            change.count += 1;
            change.bytes = change.bytes.wrapping_add(bytes.cast_signed());
        }
    }

    /// What was live when the meter began is unknown here and is not metered.
    fn lose(&mut self, record: &Record) {
        let (stack, bytes) = (record.made.caller.stack, record.made.bytes);
        let Some(site) = self
            .sites
            .get_mut(&stack)
            .filter(|site| site.live.count > 0)
        else {
            return;
        };
        site.live.count -= 1;
        site.live.bytes = site.live.bytes.saturating_sub(bytes);
        self.live = self.live.saturating_sub(bytes);
        let change = self.since_peak.entry(stack).or_default();
        change.count -= 1;
        change.bytes = change.bytes.wrapping_sub(bytes.cast_signed());
    }

    fn taken(self, place: Place) -> MeterReading {
        let mut at_peak = Vec::new();
        let mut by_bytes = Vec::new();
        for (stack, site) in self.sites {
            let since = self.since_peak.get(&stack).copied().unwrap_or_default();
            let count = site.live.count.saturating_add_signed(-since.count);
            let bytes = site.live.bytes;
            let bytes = bytes.saturating_add_signed(since.bytes.wrapping_neg());
            if count != 0 {
                at_peak.push(SiteUsage {
                    stack,
                    count,
                    bytes,
                });
            }
            by_bytes.push(SiteUsage {
                stack,
                count: site.made.count,
                bytes: site.made.bytes,
            });
        }
        at_peak.sort_by_key(|site| (Reverse(site.bytes), site.stack));
        by_bytes.sort_by_key(|site| (Reverse(site.bytes), site.stack));
        let mut by_count = by_bytes.clone();
        by_count.sort_by_key(|site| (Reverse(site.count), site.stack));
        MeterReading {
            place,
            made: self.made.count,
            total: self.made.bytes,
            peak: self.peak,
            at_peak,
            by_bytes,
            by_count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Layer, MeterReading, Meters, Place, Record, ScopeId, SiteUsage, StackId};
    use crate::ledger::Kind;
    use crate::ledger::event::{Caller, ContextUid, Creation, Key, Space, ThreadNumber};

    fn record(scope: u32, stack: u32, bytes: u64) -> Record {
        let made = Creation {
            key: Key {
                space: Space::DevicePointer,
                value: 1,
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
        Record { sequence: 1, made }
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
        }
    }

    #[test]
    fn the_peak_is_told_with_what_was_alive_then() {
        let meters = Meters::default();
        meters.begin(ScopeId(1), Layer::DRIVER);
        let (small, large) = (record(1, 1, 10), record(1, 2, 100));
        meters.took(&small);
        meters.took(&large);
        // The peak: 110 bytes. What follows does not exceed it.
        meters.gave_back(&small);
        meters.took(&record(1, 3, 5));
        meters.gave_back(&large);
        let taken = only(meters.end(ScopeId(1)));
        assert_eq!((taken.peak, taken.made, taken.total), (110, 3, 115));
        assert_eq!(taken.at_peak, [site(2, 1, 100), site(1, 1, 10)]);
        let all = [site(2, 1, 100), site(1, 1, 10), site(3, 1, 5)];
        assert_eq!(taken.by_bytes, all);
    }

    #[test]
    fn a_scope_s_budget_holds_for_those_inside_it() {
        let meters = Meters::default();
        meters.begin(ScopeId(1), Layer::DRIVER);
        meters.nest(ScopeId(2), ScopeId(1));
        meters.took(&record(2, 1, 7));
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
        meters.took(&record(3, 1, 7));
        meters.end(ScopeId(3));
        assert_eq!(only(meters.end(ScopeId(2))).peak, 7);
        meters.gave_back(&record(3, 1, 7));
        meters.took(&record(1, 1, 7));
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
        meters.took(&record(12, 1, 5));
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
        meters.took(&record(2, 1, 7));
        meters.gave_back(&record(1, 1, 7));
        meters.took(&record(1, 1, 3));
        assert_eq!(only(meters.end(ScopeId(1))).peak, 3);
    }

    #[test]
    fn what_is_put_back_was_not_made_anew() {
        let meters = Meters::default();
        meters.begin(ScopeId(1), Layer::DRIVER);
        let record = record(1, 1, 7);
        meters.took(&record);
        meters.gave_back(&record);
        meters.took_back(&record);
        let taken = only(meters.end(ScopeId(1)));
        assert_eq!((taken.made, taken.total, taken.peak), (1, 7, 7));
    }
}
