//! The live records, divided into shards by key. A shard's counters are protected by the same lock
//! as its records, so an event takes only one lock. A reader of a sum holds all locks and sees a
//! consistent state.
//!
//! A shard's lock is taken before the locks of the meters and of the list of gauges, and after all
//! other locks.

use std::array;

use rustc_hash::FxHashSet;

use crate::sync::atomic::Ordering;
use crate::sync::{Lock, LockGuard};

use super::event::{Caller, Creation, Key, Record, ScopeId, Space, Ticket};
use super::figures::{Figures, Padded};
use super::kind::Kind;
use super::shard::{
    Entering, FreeEnd, InFlightFree, NO_SHARD, SHARDS, Shard, shard_of_ticket, ticket,
};

/// All live records, by key.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) figures: Figures,
    /// The `SHARDS` shards.
    shards: Box<[Padded<Lock<Shard>>]>,
}

/// While a watch exists, the curves since its beginning can be read.
#[derive(Debug)]
pub struct Watch<'ledger>(pub(super) &'ledger Table);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.0.figures.watches.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for Table {
    fn default() -> Self {
        Self {
            figures: Figures::default(),
            // The shards are created one by one, because all of them together need more space than
            // a small stack has.
            shards: (0..SHARDS)
                .map(|_| Padded(Lock::new(Shard::new())))
                .collect(),
        }
    }
}

impl Table {
    /// Returns the index of a key's shard: the highest bits of a product, which depend on all bits
    /// of the address, no matter how addresses are aligned.
    #[inline]
    fn shard_of(key: &Key) -> usize {
        /// 2⁶⁴ over the golden ratio: Knuth, The Art of Computer Programming, volume 3, 6.4.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        (key.value().wrapping_mul(FACTOR) >> (u64::BITS - SHARDS.ilog2())) as usize
    }

    fn lock(&self, key: &Key) -> LockGuard<'_, Shard> {
        self.shards[Self::shard_of(key)].0.lock()
    }

    /// Locks all shards, for a consistent view.
    pub(super) fn lock_all(&self) -> [LockGuard<'_, Shard>; SHARDS] {
        array::from_fn(|number| self.shards[number].0.lock())
    }

    /// Returns a ticket for a free that began outside the table.
    pub(super) fn ticket(&self) -> Ticket {
        ticket(self.figures.number(), NO_SHARD)
    }

    /// Adds a new resource. If there was an earlier record under its key, or if `may_be_late`
    /// returns `true`, returns the new record and any earlier one. `may_be_late` is called after
    /// the resource was added.
    #[inline]
    pub(super) fn create(
        &self,
        made: &Creation,
        may_be_late: impl FnOnce() -> bool,
    ) -> Option<(Record, Option<Box<Record>>)> {
        let mut shard = self.lock(&made.key);
        let sequence = self.figures.number();
        let (new, old) = shard.write(&self.figures, made, sequence);
        shard.allocated(made.caller);
        shard.gain(&self.figures, new, sequence, Entering::New);
        let is_late = old.is_some() || may_be_late();
        is_late.then(|| (shard.entries[new as usize].record, old))
    }

    /// Adds a record unless there is another one under its key.
    pub(super) fn enter(&self, record: &Record, entering: Entering) {
        let mut shard = self.lock(&record.key());
        if shard.get(&record.key()).is_none() {
            let (new, _) = shard.write(&self.figures, &record.made, record.sequence);
            shard.gain(&self.figures, new, self.figures.last(), entering);
        }
    }

    /// Counts an allocation whose record is added separately or already exists.
    pub(super) fn allocated(&self, key: &Key, caller: Caller) {
        self.lock(key).allocated(caller);
    }

    /// Removes the record under `key` if `wanted` returns `true` for it.
    pub(super) fn take_if(&self, key: &Key, wanted: impl Fn(&Record) -> bool) -> Option<Record> {
        let mut shard = self.lock(key);
        shard.get(key).filter(|record| wanted(record))?;
        shard.take(&self.figures, key)
    }

    /// Removes the records for which `wanted` returns `true`, and returns them, oldest first.
    pub(super) fn take_all(&self, wanted: impl Fn(&Record) -> bool) -> Vec<Record> {
        let mut taken = Vec::new();
        for mut shard in self.lock_all() {
            let found = shard.records().filter(|record| wanted(record));
            let keys: Vec<_> = found.map(Record::key).collect();
            taken.extend(keys.iter().filter_map(|key| shard.take(&self.figures, key)));
        }
        taken.sort_by_key(|record| record.sequence);
        let memory = memory_among(taken.iter());
        unbind_from_freed(&mut taken, &memory);
        taken
    }

    /// Removes the owner of the record under `key`, and returns the record as it was before.
    pub(super) fn disown(&self, key: &Key) -> Option<Record> {
        let mut shard = self.lock(key);
        let record = shard.get_mut(key)?;
        let before = *record;
        record.made.caller.scope = ScopeId::NOBODY;
        if let Some(count) = shard.scopes.get_mut(before.made.caller.scope) {
            *count -= 1;
        }
        if let Some(mut meters) = self.figures.meters.of(&before) {
            meters.disowned(&before, self.figures.last());
        }
        Some(before)
    }

    /// Records which memory an object is bound to. Only objects without bytes of their own can be
    /// bound, so no figure changes.
    pub(super) fn bind(&self, key: &Key, memory: u64, bytes: u64) {
        let memory = key.of_its_context(Kind::Memory, memory);
        let memory = memory.and_then(|memory| self.newest(&memory));
        let memory = memory.map_or(0, |memory| memory.sequence);
        let mut shard = self.lock(key);
        let copy = shard.last_copy(&self.figures, key);
        if let Some(record) = shard.get_mut(copy.as_ref().unwrap_or(key))
            && record.made.kind.is_handle()
        {
            (record.made.pool, record.made.bytes) = (memory, bytes);
        }
    }

    /// Begins a free of the resource under `key`. The arguments are references, because the caller
    /// has just written them field by field, and a processor waits for such writes before it copies
    /// several fields at once. Taking the lock lets the writes complete.
    #[inline]
    pub(super) fn begin_free(&self, key: &Key, caller: &Caller) -> Ticket {
        let number = Self::shard_of(key);
        let mut shard = self.shards[number].0.lock();
        let copy = shard.last_copy(&self.figures, key);
        let key = copy.as_ref().unwrap_or(key);
        let ticket = ticket(self.figures.number(), number);
        shard.begin_free(&self.figures, ticket, key, caller);
        ticket
    }

    /// Begins a free of the resource under `key` by the call with this ticket, if `wanted`
    /// returns `true` for it.
    pub(super) fn begin_free_if(
        &self,
        ticket: Ticket,
        key: &Key,
        caller: Caller,
        wanted: impl Fn(&Record) -> bool,
    ) {
        let mut shard = self.lock(key);
        if shard.get(key).is_some_and(wanted) {
            shard.begin_free(&self.figures, ticket, key, &caller);
        }
    }

    /// Ends the free with this ticket. `is_done` says whether nothing else remains to be done if
    /// the free has freed this record.
    pub(super) fn end_free(
        &self,
        ticket: Ticket,
        succeeded: bool,
        is_done: impl Fn(&Record, Caller) -> bool,
    ) -> FreeEnd {
        let Some(shard) = self.shards.get(shard_of_ticket(ticket)) else {
            return FreeEnd::Elsewhere;
        };
        let is_it = |_: &Shard, free: &InFlightFree| free.ticket == ticket;
        let mut shard = shard.0.lock();
        shard.end_free(&self.figures, succeeded, is_it, is_done)
    }

    /// Ends a free that [`Self::begin_free_if`] began, and returns its record.
    pub(super) fn end_free_of(&self, ticket: Ticket, key: &Key, succeeded: bool) -> Option<Record> {
        let is_it = |shard: &Shard, free: &InFlightFree| {
            free.ticket == ticket && shard.key_of(free) == *key
        };
        let mut shard = self.lock(key);
        match shard.end_free(&self.figures, succeeded, is_it, |_, _| false) {
            FreeEnd::Pending(ended) => ended.record,
            FreeEnd::Elsewhere | FreeEnd::Done => None,
        }
    }

    pub(super) fn has_frees_in_flight(&self) -> bool {
        self.lock_all().iter().any(|it| !it.in_flight.is_empty())
    }

    /// Returns a copy of the record under `key`.
    pub(super) fn get(&self, key: &Key) -> Option<Record> {
        self.lock(key).get(key).copied()
    }

    /// Returns the keys of the live objects with this handle, of every kind and context.
    pub(super) fn objects_at(&self, handle: u64) -> Vec<Key> {
        let is_it = |key: &Key| {
            key.value() == handle && matches!(key.space, Space::Handle(_) | Space::Object { .. })
        };
        let shard = self.lock(&Key::new(Space::DevicePointer, handle));
        shard.records().map(Record::key).filter(is_it).collect()
    }

    /// Returns a copy of the newest of the live records under `key`, of which there may be several.
    fn newest(&self, key: &Key) -> Option<Record> {
        let shard = self.lock(key);
        let copy = shard.last_copy(&self.figures, key);
        shard.get(copy.as_ref().unwrap_or(key)).copied()
    }

    /// Returns copies of the records for which `wanted` returns `true`, in no particular order.
    pub(super) fn select(&self, mut wanted: impl FnMut(&Record) -> bool) -> Vec<Record> {
        let all = self.lock_all();
        let records = || all.iter().flat_map(|shard| shard.records());
        let mut found: Vec<Record> = records().filter(|it| wanted(it)).copied().collect();
        if found.iter().any(Record::is_bound) {
            unbind_from_freed(&mut found, &memory_among(records()));
        }
        found
    }
}

/// Returns the sequence numbers of the memory to which objects can be bound.
fn memory_among<'a>(records: impl Iterator<Item = &'a Record>) -> FxHashSet<u64> {
    let is_memory = |it: &&Record| matches!(it.made.key.space, Space::Object { kind, .. } if kind == Kind::Memory);
    records.filter(is_memory).map(|it| it.sequence).collect()
}

/// Removes the bytes of objects whose memory is not among `live`, because it was freed before the
/// objects.
fn unbind_from_freed(records: &mut [Record], live: &FxHashSet<u64>) {
    for record in records.iter_mut().filter(|it| it.is_bound()) {
        if !live.contains(&record.made.pool) {
            (record.made.pool, record.made.bytes) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{FreeEnd, SHARDS, Table};
    use crate::ledger::event::{Caller, ContextUid, Creation, Key, Record, Space, Ticket};
    use crate::ledger::shard::MIN_FREE;
    use crate::ledger::{Kind, Layer, Place};

    fn key(value: u64) -> Key {
        let space = Space::DevicePointer;
        Key::new(space, value)
    }

    fn made(value: u64) -> Creation {
        Creation {
            key: key(value),
            kind: Kind::Linear,
            layer: Layer::DRIVER,
            place: Place::cuda(0),
            bytes: 1,
            context: ContextUid(1),
            stream: 0,
            pool: 0,
            caller: Caller::default(),
        }
    }

    impl Table {
        /// Returns the new record's sequence number, and the record that was under its key.
        fn add(&self, address: u64) -> (u64, Option<Box<Record>>) {
            let (record, old) = self.create(&made(address), || true).unwrap();
            (record.sequence, old)
        }

        fn begin(&self, address: u64) -> Ticket {
            self.begin_free(&key(address), &Caller::default())
        }

        fn end(&self, ticket: Ticket, succeeded: bool) -> FreeEnd {
            self.end_free(ticket, succeeded, |_, _| true)
        }

        fn assert_consistent(&self) {
            self.lock_all().iter().for_each(|it| it.assert_consistent());
        }

        fn live(&self, kind: Kind) -> u64 {
            let all = self.lock_all();
            all.iter().map(|shard| shard.kinds[kind as usize]).sum()
        }
    }

    #[test]
    fn addresses_spread_over_the_shards_however_they_are_aligned() {
        for alignment in [1, 16, 512, 64 << 10, 2 << 20, 1 << 30] {
            let shard = |number| Table::shard_of(&key(number * alignment));
            let used: BTreeSet<usize> = (0..4 * SHARDS as u64).map(shard).collect();
            assert!(used.len() > SHARDS / 2, "{alignment}: {}", used.len());
        }
    }

    #[test]
    fn freed_records_do_not_take_up_room_for_long() {
        let table = Table::default();
        for address in 1..=100_000 {
            table.add(address);
            let ticket = table.begin(address);
            assert!(matches!(table.end(ticket, true), FreeEnd::Done));
        }
        let entries = |table: &Table| -> usize {
            let all = table.lock_all();
            all.iter().map(|shard| shard.entries.len()).sum()
        };
        assert!(entries(&table) <= 2 * SHARDS * (MIN_FREE + 1));
        table.assert_consistent();
        assert_eq!(table.select(|_| true), []);
    }

    /// The driver may reuse an address before the call that frees it has returned. That call may
    /// then return an error with another cause, although it freed the address.
    #[test]
    fn a_freed_record_is_gone_even_if_its_address_is_reused_meanwhile() {
        for (second_lives, first_fails) in
            [(true, true), (true, false), (false, true), (false, false)]
        {
            let table = Table::default();
            let (older, _) = table.add(1);
            let first = table.begin(1);
            let (newer, old) = table.add(1);
            assert_eq!(old, None, "the first is being freed");
            if !second_lives {
                let second = table.begin(1);
                assert!(matches!(table.end(second, true), FreeEnd::Done));
            }
            let ended = table.end_free(first, !first_fails, |_, _| false);
            let FreeEnd::Pending(ended) = ended else {
                panic!("{ended:?}");
            };
            let freed = (!first_fails).then_some(older);
            assert_eq!(ended.record.map(|record| record.sequence), freed);
            let live: Vec<_> = table
                .select(|_| true)
                .iter()
                .map(|it| it.sequence)
                .collect();
            assert_eq!(live, second_lives.then_some(newer).as_slice());
            assert_eq!(table.live(Kind::Linear), live.len() as u64);
            table.assert_consistent();
        }
    }

    #[test]
    fn a_freed_record_keeps_its_entry_until_many_are_free() {
        for (freed, kept) in [(2 * MIN_FREE, 2 * MIN_FREE + 1), (2 * MIN_FREE + 1, 1)] {
            let table = Table::default();
            let of_one_shard = (1..).map(key).filter(|key| Table::shard_of(key) == 0);
            let keys: Vec<Key> = of_one_shard.take(freed + 1).collect();
            for key in &keys[1..] {
                table.add(key.value());
            }
            for key in &keys[1..] {
                let ticket = table.begin(key.value());
                table.end(ticket, true);
            }
            table.add(keys[0].value());
            assert_eq!(table.lock(&keys[0]).keys(), kept);
            table.assert_consistent();
        }
    }

    /// The address has three records, two of which are being freed.
    #[test]
    fn an_address_that_is_used_again_and_again_has_its_last_record() {
        for second_first in [true, false] {
            let table = Table::default();
            table.add(1);
            let first = table.begin(1);
            let (second_made, _) = table.add(1);
            let second = table.begin(1);
            let end = |ticket, succeeded| table.end(ticket, succeeded);
            if second_first {
                end(second, false);
                end(first, true);
            } else {
                end(first, true);
                end(second, false);
            }
            let live = table.select(|_| true);
            let live: Vec<u64> = live.iter().map(|it| it.sequence).collect();
            assert_eq!(live, [second_made], "second first: {second_first}");
            table.assert_consistent();
        }
    }

    #[test]
    fn frees_in_flight_of_one_shard_have_tickets_of_their_own() {
        for succeeded in [true, false] {
            let table = Table::default();
            let of_one_shard = (1..).map(key).filter(|key| Table::shard_of(key) == 0);
            let keys: Vec<Key> = of_one_shard.take(20).collect();
            for key in &keys {
                table.add(key.value());
            }
            let begin = |key: &Key| table.begin(key.value());
            let tickets: Vec<Ticket> = keys.iter().map(begin).collect();
            let distinct: BTreeSet<u64> = tickets.iter().map(|ticket| ticket.0).collect();
            assert_eq!(distinct.len(), keys.len());
            for ticket in tickets {
                table.end(ticket, succeeded);
            }
            assert!(!table.has_frees_in_flight());
            assert_eq!(table.select(|_| true).is_empty(), succeeded);
            table.assert_consistent();
        }
    }
}
