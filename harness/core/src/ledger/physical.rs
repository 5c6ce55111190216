//! Physical memory of the driver's
//! [virtual memory management](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html).
//!
//! It lives as long as a handle names it or a range of addresses maps it. The usual way is to
//! create, to map and to release the handle at once, after which the driver may give the same
//! handle to other memory: so each object has a number of its own, and handles and ranges only say
//! which object they hold.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::event::{ContextUid, Key, Record, Space};
use super::holds::{GivenBack, SharedObjects, TableChange};
use super::kind::Kind;

/// Every physical object, what its handles are and where it is mapped.
#[derive(Debug, Default)]
pub(super) struct Physical {
    /// How many objects there ever were.
    objects: u64,
    holds: SharedObjects,
    handles: FxHashMap<u64, Handle>,
    /// By first address.
    maps: BTreeMap<u64, MappedRange>,
}

/// What a handle stands for.
#[derive(Clone, Copy, Debug)]
struct Handle {
    object: u64,
    /// How often it must be released.
    references: u64,
    /// When it came to stand for this.
    since: u64,
}

/// A mapped range.
#[derive(Clone, Copy, Debug)]
struct MappedRange {
    /// The first address behind it.
    end: u64,
    object: u64,
    /// When it was mapped.
    since: u64,
}

/// A hold that a call gives back, until it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dropped {
    pub(super) taken: GivenBack,
    from: DroppedBy,
}

#[derive(Clone, Copy, Debug)]
enum DroppedBy {
    /// One reference of this handle.
    Handle(u64, Handle),
    /// The map that begins here.
    Map(u64, MappedRange),
}

/// What holds an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// How many times its handles must still be released.
    pub references: u64,
    /// In how many ranges it is mapped.
    pub maps: u64,
    /// The first address of one of them.
    pub mapped_at: Option<u64>,
}

fn key_of(object: u64) -> Key {
    Key {
        space: Space::PhysicalObject,
        value: object,
    }
}

impl Physical {
    /// The driver answered with a handle; `record` has it for its key. What is imported again under
    /// a handle that is held is the same object.
    pub(super) fn created(&mut self, mut record: Record, changes: &mut Vec<TableChange>) {
        let handle = record.made.key.value;
        if let Some(known) = self.handles.get_mut(&handle) {
            if record.made.kind == Kind::Imported {
                known.references += 1;
                self.holds.add(&key_of(known.object), 1);
                return;
            }
            self.lose_handle(handle, changes);
        }
        self.objects += 1;
        record.made.key = key_of(self.objects);
        // It is the device's, and no context takes it along.
        record.made.context = ContextUid::default();
        self.holds.enter(record, changes);
        self.name(handle, self.objects, record.sequence);
    }

    /// The driver was asked for the handle of what is mapped at `address`: an old one or a new one.
    pub(super) fn retained(
        &mut self,
        handle: u64,
        address: u64,
        now: u64,
        changes: &mut Vec<TableChange>,
    ) {
        let Some(object) = self.mapped_at(address) else {
            return;
        };
        match self.handles.get_mut(&handle) {
            Some(known) if known.object == object => known.references += 1,
            _ => {
                self.lose_handle(handle, changes);
                self.name(handle, object, now);
            }
        }
        self.holds.add(&key_of(object), 1);
    }

    /// The object of `handle` is mapped at `bytes` from `address` on.
    pub(super) fn mapped(
        &mut self,
        address: u64,
        bytes: u64,
        handle: u64,
        now: u64,
        changes: &mut Vec<TableChange>,
    ) {
        let end = address.saturating_add(bytes);
        // The driver maps no address twice: what is still here was unmapped unseen.
        for old in self.overlapping(address, end) {
            if let Some(map) = self.maps.remove(&old) {
                self.lose(map.object, 1, changes);
            }
        }
        if let Some(handle) = self.handles.get(&handle) {
            let object = handle.object;
            self.holds.add(&key_of(object), 1);
            let map = MappedRange {
                end,
                object,
                since: now,
            };
            self.maps.insert(address, map);
        }
    }

    /// A call begins to release `handle` once.
    pub(super) fn release_began(
        &mut self,
        handle: u64,
        changes: &mut Vec<TableChange>,
    ) -> Option<Dropped> {
        let known = self.handles.get_mut(&handle)?;
        known.references -= 1;
        let from = DroppedBy::Handle(handle, *known);
        let object = known.object;
        if known.references == 0 {
            self.handles.remove(&handle);
        }
        let taken = self.holds.take(&key_of(object), 1, changes)?;
        Some(Dropped { taken, from })
    }

    /// A call begins to unmap `bytes` from `address` on, which may be several maps.
    pub(super) fn unmap_began(
        &mut self,
        address: u64,
        bytes: u64,
        changes: &mut Vec<TableChange>,
    ) -> Vec<Dropped> {
        let range = address..address.saturating_add(bytes);
        let maps: Vec<_> = self
            .maps
            .range(range)
            .map(|(at, map)| (*at, *map))
            .collect();
        let mut dropped = Vec::with_capacity(maps.len());
        for (at, map) in maps {
            self.maps.remove(&at);
            if let Some(taken) = self.holds.take(&key_of(map.object), 1, changes) {
                let from = DroppedBy::Map(at, map);
                dropped.push(Dropped { taken, from });
            }
        }
        dropped
    }

    /// The call has succeeded. Answers whether the object is gone for good.
    pub(super) fn commit(&mut self, dropped: Dropped) -> bool {
        self.holds.commit(dropped.taken)
    }

    /// The call has failed. A handle or a range that stands for something else by now was given
    /// back after all, by another call.
    pub(super) fn put_back(&mut self, dropped: Dropped, changes: &mut Vec<TableChange>) {
        let is_taken = match dropped.from {
            DroppedBy::Handle(value, old) => {
                let known = self.handles.entry(value).or_insert(Handle {
                    references: 0,
                    ..old
                });
                let is_own = known.object == old.object;
                known.references += u64::from(is_own);
                !is_own
            }
            DroppedBy::Map(at, map) => {
                let is_taken = !self.overlapping(at, map.end).is_empty();
                if !is_taken {
                    self.maps.insert(at, map);
                }
                is_taken
            }
        };
        if is_taken {
            self.holds.commit(dropped.taken);
        } else {
            self.holds.put_back(dropped.taken, changes);
        }
    }

    /// A release of `key`, which nothing was known of when it began with the event `began`, has succeeded:
    /// what is older was put back meanwhile by a call that failed. Answers whether there was any.
    pub(super) fn released_unknown(
        &mut self,
        key: &Key,
        began: u64,
        changes: &mut Vec<TableChange>,
    ) -> bool {
        let stale = if key.space == Space::PhysicalHandle {
            let handle = self.handles.get(&key.value);
            match handle {
                Some(handle) if handle.since < began => self.release_began(key.value, changes),
                _ => None,
            }
        } else {
            match self.maps.get(&key.value) {
                Some(map) if map.since < began => {
                    let bytes = map.end - key.value;
                    self.unmap_began(key.value, bytes, changes).pop()
                }
                _ => None,
            }
        };
        stale.map(|dropped| self.commit(dropped)).is_some()
    }

    /// What holds each object that is held.
    pub(super) fn holdings(&self) -> FxHashMap<Key, Holding> {
        let mut holdings: FxHashMap<Key, Holding> = FxHashMap::default();
        for handle in self.handles.values() {
            let holding = holdings.entry(key_of(handle.object)).or_default();
            holding.references += handle.references;
        }
        for (at, map) in &self.maps {
            let holding = holdings.entry(key_of(map.object)).or_default();
            holding.maps += 1;
            holding.mapped_at = holding.mapped_at.or(Some(*at));
        }
        holdings
    }

    /// The object that `handle` names.
    pub(super) fn named(&self, handle: u64) -> Option<Key> {
        self.handles.get(&handle).map(|known| key_of(known.object))
    }

    /// The object whose map begins at `address`.
    pub(super) fn map_begins(&self, address: u64) -> Option<Key> {
        self.maps.get(&address).map(|map| key_of(map.object))
    }

    /// An object is another's to give back from now on. Answers its record from before.
    pub(super) fn hand_over(
        &mut self,
        key: &Key,
        changes: &mut Vec<TableChange>,
    ) -> Option<Record> {
        self.holds.hand_over(key, changes)
    }

    fn name(&mut self, handle: u64, object: u64, since: u64) {
        let handle_of = Handle {
            object,
            references: 1,
            since,
        };
        self.handles.insert(handle, handle_of);
    }

    /// `handle` no longer stands for what it did, and no call said so.
    fn lose_handle(&mut self, handle: u64, changes: &mut Vec<TableChange>) {
        if let Some(old) = self.handles.remove(&handle) {
            self.lose(old.object, old.references, changes);
        }
    }

    fn lose(&mut self, object: u64, count: u64, changes: &mut Vec<TableChange>) {
        let before = changes.len();
        self.holds.give_back(&key_of(object), count, changes);
        for change in &mut changes[before..] {
            if let TableChange::Vanished(record) = *change {
                *change = TableChange::Overwritten(record);
            }
        }
    }

    /// The object mapped at `address`.
    fn mapped_at(&self, address: u64) -> Option<u64> {
        let (_, map) = self.maps.range(..=address).next_back()?;
        (address < map.end).then_some(map.object)
    }

    /// Where maps begin that share an address with `from..end`.
    fn overlapping(&self, from: u64, end: u64) -> Vec<u64> {
        let before = self.maps.range(..from).next_back();
        let before = before.filter(|(_, map)| map.end > from);
        let inside = self.maps.range(from..end.max(from));
        before
            .into_iter()
            .chain(inside)
            .map(|(at, _)| *at)
            .collect()
    }
}

#[cfg(test)]
mod tests;
