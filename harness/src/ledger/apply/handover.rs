//! What the program hands over: another frees it, and no check asks for it any more.

use crate::sync::{MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::{Kind, Ledger, Record, ScopeId};
use crate::ledger::event::{Key, Space};
use crate::ledger::{Layer, Place};

/// Where memory is known by its address. A handle's number may be that of an address.
const MEMORY: [Space; 4] = [
    Space::DevicePointer,
    Space::HostPointer,
    Space::RegisteredPointer,
    Space::IpcPointer,
];

/// What a scope made and handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandedOver {
    /// How many.
    pub count: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Ledger {
    /// What begins at `address` in memory, else the only object with this handle.
    pub(super) fn hand_over(&self, address: u64) {
        if address == 0 {
            return;
        }
        let keys = match self.memory_at(address) {
            keys if !keys.is_empty() => keys,
            _ => self.handle_at(address).into_iter().collect(),
        };
        // A block and the segment that it fills are one thing to the program.
        let mut is_counted = false;
        for key in keys {
            let Some(before) = self.disown(&key) else {
                continue;
            };
            if !is_counted {
                is_counted = self.count_handed_over(&before);
            }
        }
    }

    /// The smallest that begins there: a block may begin where its segment does, and the segment
    /// is its allocator's. With a map of physical memory goes the range of addresses.
    fn memory_at(&self, address: u64) -> Vec<Key> {
        let layers = || (1..Layer::LIMIT).filter_map(Layer::known);
        let spaces = MEMORY.into_iter().chain(layers().map(Space::Observed));
        let keys = spaces.map(|space| Key {
            space,
            value: address,
        });
        let keys = keys.chain(layers().filter_map(|layer| self.placed_at(layer, address)));
        let mapped = self.shared.lock().physical.map_begins(address);
        let live = keys.chain(mapped).filter_map(|key| self.table.get(&key));
        let live: Vec<Record> = live.collect();
        let Some(least) = live.iter().map(|record| record.made.bytes).min() else {
            return Vec::new();
        };
        let smallest = live.iter().filter(|record| record.made.bytes == least);
        let mut keys: Vec<Key> = smallest.map(Record::key).collect();
        if mapped.is_some_and(|mapped| keys.contains(&mapped)) {
            keys.push(Key {
                space: Space::Handle(Kind::AddressRange),
                value: address,
            });
        }
        keys
    }

    /// What an allocator has at this address of one of its places, unless it has something there in
    /// several.
    fn placed_at(&self, layer: Layer, address: u64) -> Option<Key> {
        let keys = (0..Place::LIMIT).map(Place::at).map(|place| Key {
            space: Space::ObservedAt(layer, place),
            value: address,
        });
        let mut live = keys.filter(|key| self.table.get(key).is_some());
        let only = live.next();
        only.filter(|_| live.next().is_none())
    }

    /// The object with this handle, unless objects of several kinds have it.
    fn handle_at(&self, handle: u64) -> Option<Key> {
        let keys = Kind::ALL.map(|kind| Key {
            space: Space::Handle(kind),
            value: handle,
        });
        let named = self.shared.lock().physical.named(handle);
        let mut live = keys
            .into_iter()
            .chain(named)
            .filter(|key| self.table.get(key).is_some());
        let only = live.next();
        only.filter(|_| live.next().is_none())
    }

    /// Makes the record under `key` nobody's; it as it was before.
    fn disown(&self, key: &Key) -> Option<Record> {
        if key.space == Space::PhysicalObject || key.space.is_shared() {
            return self.change(|state, changes| {
                // It may have gone with its context.
                self.table.get(key)?;
                match key.space {
                    Space::PhysicalObject => state.physical.hand_over(key, changes),
                    _ => state.counted.hand_over(key, changes),
                }
            });
        }
        // Where it stands, for it may be freed at any moment.
        let disown = |record: &mut Record| record.made.caller.scope = ScopeId::NOBODY;
        let before = self.table.change(key, disown)?;
        self.meters.gave_back(&before);
        let caller = before.made.caller;
        self.stripes
            .of(caller.thread)
            .scopes
            .change(caller.scope, -1);
        Some(before)
    }

    /// Whether a scope is open that made it.
    fn count_handed_over(&self, record: &Record) -> bool {
        let scope = record.made.caller.scope;
        let is_open = self.stripes.is_open(scope);
        if is_open {
            let mut all = self.handed_over_by_scope();
            let sum = all.entry(scope).or_default();
            sum.count += 1;
            sum.bytes = sum.bytes.saturating_add(record.made.bytes);
        }
        is_open
    }

    pub(super) fn handed_over_by_scope(&self) -> MutexGuard<'_, FxHashMap<ScopeId, HandedOver>> {
        self.handed_over
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
