//! The allocations and frees of one layer at one place, as a meter counts them.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::mem;

use rustc_hash::FxHashMap;

use super::{InTurn, Lifetime, MeterReading, SiteUsage};
use crate::ledger::event::{Record, StackId, ThreadNumber};
use crate::ledger::{Amount, Kind, Layer, Place};

/// The largest number of lifetimes that a log keeps for each layer at each place, in addition to
/// the lifetimes of resources that are live now or were live at the peak.
pub(super) const MAX_LIFETIMES: usize = 2048;
/// The largest number of different buffers that are counted for each layer at each place.
const MAX_BUFFERS: usize = 4096;
/// The allocations and frees of one layer at one place.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// All allocations, whether or not they were freed.
    made: Amount,
    live: u64,
    peak: u64,
    /// The event that reached the peak, or 0 if the usage has never exceeded the usage at the
    /// beginning.
    peak_at: u64,
    /// The number of allocations so far, and at the peak. Events of several threads are not always
    /// applied in the order of their sequence numbers, so these counts, rather than the sequence
    /// numbers, determine which records were live at the peak.
    entered: u64,
    entered_at_peak: u64,
    /// The live records, by sequence number.
    held: FxHashMap<u64, Held>,
    /// The records that were live at the peak and have been freed since.
    since_peak: Vec<Held>,
    sites: FxHashMap<StackId, Amount>,
    buffers: FxHashMap<Buffer, Uses>,
    log: Option<LifetimeLog>,
}

/// A live record.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The lifetime that is logged. If the free of a record failed, the record has two: one until
    /// that free, and one from its return.
    life: Lifetime,
    /// The event that created the record, or 0 if the record was live when the log began.
    created: u64,
    /// The position of the allocation in the order in which allocations were applied, counted from
    /// 1, or 0 if the allocation was live when the log began.
    entered: u64,
}

/// The lifetimes of freed records. The largest ones are kept.
#[derive(Debug, Default)]
struct LifetimeLog {
    /// The event with which the log began.
    since: u64,
    freed: Vec<Lifetime>,
    /// How many lifetimes were not kept.
    lost: u64,
}

/// Allocations that could share one buffer, because they have the same thread, size, call site and
/// stream.
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

impl Flow {
    /// Creates a flow, which keeps lifetimes if it is `logged_since` an event.
    pub(super) fn new(logged_since: Option<u64>) -> Self {
        Self {
            log: logged_since.map(|since| LifetimeLog {
                since,
                ..LifetimeLog::default()
            }),
            ..Self::default()
        }
    }

    /// Adds a record that was live when the log began.
    pub(super) fn held_before(&mut self, record: &Record) {
        let life = Lifetime {
            stack: record.made.caller.stack,
            bytes: record.made.bytes,
            allocated: 0,
            freed: 0,
        };
        let held = Held {
            life,
            created: 0,
            entered: 0,
        };
        self.held.insert(record.sequence, held);
        self.live = self.live.saturating_add(life.bytes);
        self.peak = self.live;
    }

    pub(super) fn gain(&mut self, record: &Record, at: u64, is_new: bool) {
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
            allocated: if is_new { record.sequence } else { at },
            freed: 0,
        };
        let log = self.log.as_ref();
        let is_earlier = log.is_some_and(|log| record.sequence < log.since);
        let entered = self.entered;
        let held = Held {
            life,
            created: if is_earlier { 0 } else { record.sequence },
            entered,
        };
        self.held.insert(record.sequence, held);
        self.live = self.live.saturating_add(bytes);
        if self.live > self.peak {
            (self.peak, self.peak_at) = (self.live, at);
            self.entered_at_peak = entered;
            let freed = mem::take(&mut self.since_peak);
            if let Some(log) = &mut self.log {
                freed.into_iter().for_each(|held| log.add(held.life));
            }
        }
        if let Some(uses) = self.uses(record) {
            uses.made += u64::from(is_new);
            uses.live += 1;
            uses.most = uses.most.max(uses.live);
        }
    }

    /// Removes a record. Records that were live when the meter of a budget began are unknown here
    /// and are not metered. A record that was handed over is not `is_freed`, so no later allocation
    /// could have reused its memory.
    pub(super) fn lose(&mut self, record: &Record, at: u64, is_freed: bool) {
        let Some(mut held) = self.held.remove(&record.sequence) else {
            return;
        };
        self.live = self.live.saturating_sub(held.life.bytes);
        held.life.freed = at;
        if held.entered <= self.entered_at_peak {
            self.since_peak.push(held);
        } else if let Some(log) = &mut self.log {
            log.add(held.life);
        }
        if is_freed
            && held.entered != 0
            && let Some(uses) = self.uses(record)
        {
            uses.live = uses.live.saturating_sub(1);
        }
    }

    /// Returns the uses of the buffer that an allocation could share. Returns `None` if too many
    /// buffers are counted already, if the allocation has no bytes, or if the program cannot reuse
    /// its memory, because it belongs to a graph or was allocated elsewhere.
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

    pub(super) fn reading(&self, (layer, place): (Layer, Place)) -> MeterReading {
        let held = self.held.values();
        let held = held.filter(|held| held.entered <= self.entered_at_peak);
        let mut at_peak: FxHashMap<(StackId, bool), SiteUsage> = FxHashMap::default();
        for Held { life, created, .. } in held.chain(&self.since_peak) {
            let site = at_peak.entry((life.stack, *created == 0));
            let site = site.or_insert_with(|| SiteUsage {
                allocated: (*created, *created),
                ..SiteUsage::of(life.stack, Amount::default())
            });
            site.count += 1;
            site.bytes = site.bytes.saturating_add(life.bytes);
            site.allocated.0 = site.allocated.0.min(*created);
            site.allocated.1 = site.allocated.1.max(*created);
        }
        let mut at_peak: Vec<_> = at_peak.into_values().collect();
        let sites = self.sites.iter();
        let mut by_bytes: Vec<_> = sites
            .map(|(stack, made)| SiteUsage::of(*stack, *made))
            .collect();
        at_peak.sort_by_key(|site| (Reverse(site.bytes), site.stack, site.allocated));
        by_bytes.sort_by_key(|site| (Reverse(site.bytes), site.stack));
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
            in_turn,
            lifetimes,
            lost,
        }
    }

    /// Returns the lifetimes that the log has kept, and the number of lifetimes that it has
    /// dropped.
    fn lifetimes(&self) -> (Vec<Lifetime>, u64) {
        let Some(log) = &self.log else {
            return (Vec::new(), 0);
        };
        let mut all = LifetimeLog {
            lost: log.lost,
            ..LifetimeLog::default()
        };
        let held = self.held.values().chain(&self.since_peak);
        held.map(|held| held.life)
            .chain(log.freed.iter().copied())
            .for_each(|life| all.add(life));
        all.freed
            .sort_by_key(|life| (life.allocated, life.freed, life.stack, life.bytes));
        (all.freed, all.lost)
    }
}

impl LifetimeLog {
    /// Adds a lifetime. When the log is full, the smaller half is dropped.
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
