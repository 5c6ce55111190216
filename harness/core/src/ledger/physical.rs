//! Physical memory of the driver's [virtual memory
//! management](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html).
//!
//! Physical memory lives as long as a handle refers to it or a range of addresses maps it. Programs
//! usually create it, map it and release the handle immediately. After that, the driver may give
//! the same handle to other memory. So each object has its own ID here, and handles and ranges only
//! refer to the object that they hold.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::event::{ContextUid, Key, Record, Space};
use super::holds::{SharedObjects, TableChange, TakenHolds};
use super::kind::Kind;

/// All physical memory allocations (`cuMemCreate`), with their handles and mappings, and the other
/// objects that can have several holders.
#[derive(Debug, Default)]
pub(super) struct Physical {
    /// The number of physical memory allocations that have been created.
    objects: u64,
    /// All objects that can have several holders: physical memory, and the objects that are
    /// identified by their own keys.
    pub(super) holds: SharedObjects,
    handles: FxHashMap<u64, Handle>,
    /// The mapped ranges, by first address.
    maps: BTreeMap<u64, MappedRange>,
}

/// The object behind a handle.
#[derive(Clone, Copy, Debug)]
struct Handle {
    object: u64,
    /// How many times the handle must be released.
    references: u64,
    /// The event with which the handle began to refer to this object.
    since: u64,
}

#[derive(Clone, Copy, Debug)]
struct MappedRange {
    /// The first address after the range.
    end: u64,
    object: u64,
    /// The event with which the range was mapped.
    since: u64,
}

/// A hold that a call in progress releases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dropped {
    pub(super) taken: TakenHolds,
    /// The handle or mapping that held the physical memory. `None` for any other object.
    from: Option<DroppedBy>,
}

#[derive(Clone, Copy, Debug)]
enum DroppedBy {
    /// One reference of this handle.
    Handle(u64, Handle),
    /// The mapping that begins at this address.
    Map(u64, MappedRange),
}

/// The holders of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// How many times the object's handles must still be released.
    pub references: u64,
    /// The number of ranges in which the object is mapped.
    pub maps: u64,
    /// The first address of one of these ranges.
    pub mapped_at: Option<u64>,
}

fn key_of(object: u64) -> Key {
    Key::new(Space::PhysicalObject, object)
}

impl Physical {
    /// Records a new handle, which is the key of `record`. Importing the same object again while it
    /// is held returns the same handle.
    pub(super) fn created(&mut self, mut record: Record) {
        let handle = record.made.key.value();
        if let Some(known) = self.handles.get_mut(&handle) {
            if record.made.kind == Kind::Imported {
                known.references += 1;
                self.holds.add(&key_of(known.object), 1);
                return;
            }
            self.lose_handle(handle);
        }
        self.objects += 1;
        record.made.key = key_of(self.objects);
        // The memory belongs to the device and does not end with a context.
        record.made.context = ContextUid::default();
        self.holds.enter(record);
        self.name(handle, self.objects, record.sequence);
    }

    /// Records that the driver returned a handle, known or new, for the object mapped at `address`.
    pub(super) fn retained(&mut self, handle: u64, address: u64, now: u64) {
        let Some(object) = self.mapped_at(address) else {
            return;
        };
        match self.handles.get_mut(&handle) {
            Some(known) if known.object == object => known.references += 1,
            _ => {
                self.lose_handle(handle);
                self.name(handle, object, now);
            }
        }
        self.holds.add(&key_of(object), 1);
    }

    /// Records that the object of `handle` was mapped to a range of `bytes` bytes at `address`.
    pub(super) fn mapped(&mut self, address: u64, bytes: u64, handle: u64, now: u64) {
        let end = address.saturating_add(bytes);
        // The driver never maps an address twice, so if a mapping is still recorded here, its end
        // was missed.
        for old in self.overlapping(address, end) {
            if let Some(map) = self.maps.remove(&old) {
                self.lose(map.object, 1);
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

    /// Begins a call that releases `count` holds of the object that is identified by `key`.
    pub(super) fn take(&mut self, key: &Key, count: u64) -> Option<Dropped> {
        let taken = self.holds.take(key, count)?;
        Some(Dropped { taken, from: None })
    }

    /// Begins a call that releases `handle` once.
    pub(super) fn release_began(&mut self, handle: u64) -> Option<Dropped> {
        let known = self.handles.get_mut(&handle)?;
        known.references -= 1;
        let from = Some(DroppedBy::Handle(handle, *known));
        let object = known.object;
        if known.references == 0 {
            self.handles.remove(&handle);
        }
        let taken = self.holds.take(&key_of(object), 1)?;
        Some(Dropped { taken, from })
    }

    /// Begins a call that unmaps `bytes` bytes at `address`, which may be several mappings.
    pub(super) fn unmap_began(&mut self, address: u64, bytes: u64) -> Vec<Dropped> {
        let range = address..address.saturating_add(bytes);
        let maps: Vec<_> = self
            .maps
            .range(range)
            .map(|(at, map)| (*at, *map))
            .collect();
        let mut dropped = Vec::with_capacity(maps.len());
        for (at, map) in maps {
            self.maps.remove(&at);
            if let Some(taken) = self.holds.take(&key_of(map.object), 1) {
                let from = Some(DroppedBy::Map(at, map));
                dropped.push(Dropped { taken, from });
            }
        }
        dropped
    }

    /// Restores the hold after a failed call. If the handle or range now refers to another object,
    /// another call has released the hold, so it is not restored.
    pub(super) fn put_back(&mut self, dropped: Dropped) {
        let is_taken = match dropped.from {
            None => false,
            Some(DroppedBy::Handle(value, old)) => {
                // Another call may have removed the handle, together with the references that `old`
                // still had.
                let known = self.handles.entry(value).or_insert(Handle {
                    references: 0,
                    ..old
                });
                let is_own = known.object == old.object;
                known.references += u64::from(is_own);
                !is_own
            }
            Some(DroppedBy::Map(at, map)) => {
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
            self.holds.put_back(dropped.taken);
        }
    }

    /// Handles a successful release of `key`, for which nothing was known when the call began with
    /// the event `began`. If a failed call has restored an older hold in the meantime, that hold is
    /// removed. Returns whether there was such a hold.
    pub(super) fn released_unknown(&mut self, key: &Key, began: u64) -> bool {
        let value = key.value();
        let stale = if key.space == Space::PhysicalHandle {
            let handle = self.handles.get(&value);
            let is_stale = handle.is_some_and(|handle| handle.since < began);
            is_stale.then(|| self.release_began(value)).flatten()
        } else {
            let map = self.maps.get(&value).filter(|map| map.since < began);
            let bytes = map.map(|map| map.end - value);
            bytes.and_then(|bytes| self.unmap_began(value, bytes).pop())
        };
        stale
            .map(|dropped| self.holds.commit(dropped.taken))
            .is_some()
    }

    /// Returns the holders of each object that is held.
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

    /// Returns the object that `handle` names.
    pub(super) fn named(&self, handle: u64) -> Option<Key> {
        self.handles.get(&handle).map(|known| key_of(known.object))
    }

    /// Returns the object whose mapping begins at `address`.
    pub(super) fn map_begins(&self, address: u64) -> Option<Key> {
        self.maps.get(&address).map(|map| key_of(map.object))
    }

    fn name(&mut self, handle: u64, object: u64, since: u64) {
        let handle_of = Handle {
            object,
            references: 1,
            since,
        };
        self.handles.insert(handle, handle_of);
    }

    /// Removes a handle that now refers to another object, although its release was missed.
    fn lose_handle(&mut self, handle: u64) {
        if let Some(old) = self.handles.remove(&handle) {
            self.lose(old.object, old.references);
        }
    }

    fn lose(&mut self, object: u64, count: u64) {
        let before = self.holds.changes.len();
        self.holds.release(&key_of(object), count);
        for change in &mut self.holds.changes[before..] {
            if let TableChange::Left(record) = *change {
                *change = TableChange::Overwritten(record);
            }
        }
    }

    /// Returns the object mapped at `address`.
    fn mapped_at(&self, address: u64) -> Option<u64> {
        let (_, map) = self.maps.range(..=address).next_back()?;
        (address < map.end).then_some(map.object)
    }

    /// Returns the first addresses of the mappings that overlap `from..end`.
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
