//! What the program hands over: another frees it, and no check asks for it any more.

use super::{Kind, Ledger, Record};
use crate::ledger::event::{Key, Space};

/// Where memory is known by its address. A handle's number may be that of an address.
const MEMORY: [Space; 4] = [
    Space::DevicePointer,
    Space::HostPointer,
    Space::RegisteredPointer,
    Space::IpcPointer,
];

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
                is_counted = self.scopes.handed_over(&before.made);
            }
        }
    }

    /// The smallest that begins there: a block may begin where its segment does, and the segment
    /// is its allocator's. With a map of physical memory goes the range of addresses.
    fn memory_at(&self, address: u64) -> Vec<Key> {
        let at = |space| Key {
            space,
            value: address,
        };
        let mut keys: Vec<Key> = MEMORY.map(at).into();
        let usage = self.table.usage();
        for of_layer in usage.chunk_by(|one, next| one.0.layer == next.0.layer) {
            let Some(layer) = of_layer[0].0.layer else {
                continue;
            };
            keys.push(at(Space::Observed(layer)));
            // Unless it has something there at several of its places.
            let places = of_layer.iter().map(|(key, _)| key.place);
            keys.extend(self.only(places.map(|place| at(Space::ObservedAt(layer, place)))));
        }
        let mapped = self.shared().physical.map_begins(address);
        keys.extend(mapped);
        let live: Vec<Record> = keys.iter().filter_map(|key| self.table.get(key)).collect();
        let Some(least) = live.iter().map(|record| record.made.bytes).min() else {
            return Vec::new();
        };
        let smallest = live.iter().filter(|record| record.made.bytes == least);
        let mut keys: Vec<Key> = smallest.map(Record::key).collect();
        if mapped.is_some_and(|mapped| keys.contains(&mapped)) {
            keys.push(at(Space::Handle(Kind::AddressRange)));
        }
        keys
    }

    /// The object with this handle, unless objects of several kinds have it.
    fn handle_at(&self, handle: u64) -> Option<Key> {
        let keys = Kind::ALL.map(|kind| Key {
            space: Space::Handle(kind),
            value: handle,
        });
        let named = self.shared().physical.named(handle);
        self.only(keys.into_iter().chain(named))
    }

    /// The one of these keys under which something is live, unless there are several.
    fn only(&self, keys: impl Iterator<Item = Key>) -> Option<Key> {
        let mut live = keys.filter(|key| self.table.get(key).is_some());
        let only = live.next();
        only.filter(|_| live.next().is_none())
    }

    /// Makes the record under `key` nobody's; it as it was before.
    fn disown(&self, key: &Key) -> Option<Record> {
        if key.space != Space::PhysicalObject && !key.space.is_shared() {
            // Where it stands, for it may be freed at any moment.
            return self.table.disown(key);
        }
        self.change(|shared, changes| {
            // It may have gone with its context.
            self.table.get(key)?;
            match key.space {
                Space::PhysicalObject => shared.physical.hand_over(key, changes),
                _ => shared.counted.hand_over(key, changes),
            }
        })
    }
}

#[cfg(test)]
mod tests;
