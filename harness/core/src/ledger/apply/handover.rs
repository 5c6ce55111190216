//! Hands resources over: other code will free them, so no check is responsible for them.

use super::{Kind, Ledger, Record};
use crate::ledger::UsageKey;
use crate::ledger::event::{Key, Space};

/// The spaces in which memory is identified by its address. Handles are searched separately, since
/// a handle can have the same value as an address.
const MEMORY: [Space; 4] = [
    Space::DevicePointer,
    Space::HostPointer,
    Space::RegisteredPointer,
    Space::IpcPointer,
];

impl Ledger {
    /// Hands over the memory that begins at `address` or, if there is none, the only object with
    /// this handle.
    pub(super) fn hand_over(&self, address: u64) {
        if address == 0 {
            return;
        }
        let keys = match self.memory_at(address) {
            keys if !keys.is_empty() => keys,
            _ => self.handle_at(address).into_iter().collect(),
        };
        // To the program, a block and the segment that it fills are the same, so only one of them
        // is counted.
        let mut is_counted = false;
        for key in keys {
            let Some(before) = self.disown(&key) else {
                continue;
            };
            if !is_counted {
                is_counted = self.scopes.handed_over(&before.made);
            }
            for key in self.contents(&before) {
                self.disown(&key);
            }
        }
    }

    /// Returns the objects that end with this record, if it is a pool of Vulkan.
    fn contents(&self, pool: &Record) -> Vec<Key> {
        let kind = match pool.made.kind {
            Kind::CommandPool => Kind::CommandBuffer,
            Kind::DescriptorPool => Kind::DescriptorSet,
            _ => return Vec::new(),
        };
        let (context, handle) = (pool.made.context, pool.made.key.value());
        let contents = self.table.select(|Record { made, .. }| {
            (made.kind, made.context, made.pool) == (kind, context, handle)
        });
        contents.iter().map(Record::key).collect()
    }

    /// Returns the smallest allocation that begins at `address`. A block may begin where its
    /// segment does, but the segment belongs to the allocator. A mapping of physical memory is
    /// handed over with its address range.
    fn memory_at(&self, address: u64) -> Vec<Key> {
        let at = |space| Key::new(space, address);
        let mut keys: Vec<Key> = MEMORY.map(at).into();
        let keys_of_usage: Vec<UsageKey> = self.table.figures.gauges().keys().copied().collect();
        for of_layer in keys_of_usage.chunk_by(|one, next| one.layer == next.layer) {
            let Some(layer) = of_layer[0].layer else {
                continue;
            };
            keys.push(at(Space::Observed(layer)));
            // An address that exists in several places is ambiguous, so nothing is handed over.
            let places = of_layer.iter().map(|key| key.place);
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

    /// Returns the object with this handle, unless several objects have it.
    fn handle_at(&self, handle: u64) -> Option<Key> {
        let keys = self.table.objects_at(handle);
        let named = self.shared().physical.named(handle);
        self.only(keys.into_iter().chain(named))
    }

    /// Returns the key under which something is live, if exactly one of these keys has a live
    /// record. Otherwise returns `None`.
    fn only(&self, keys: impl Iterator<Item = Key>) -> Option<Key> {
        let mut live = keys.filter(|key| self.table.get(key).is_some());
        let only = live.next();
        only.filter(|_| live.next().is_none())
    }

    /// Removes the owner of the record under `key`, and returns the record as it was before.
    fn disown(&self, key: &Key) -> Option<Record> {
        if key.space != Space::PhysicalObject && !key.space.is_shared() {
            // The record is changed in place, because it may be freed at any moment.
            return self.table.disown(key);
        }
        self.change(|shared| {
            // The record may have ended with its context.
            self.table.get(key)?;
            shared.physical.holds.hand_over(key)
        })
    }
}

#[cfg(test)]
mod tests;
