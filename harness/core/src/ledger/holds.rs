//! Objects that live as long as references or mappings hold them.
//!
//! Such an object has one record, no matter how many holders it has. This module does not change
//! the table itself: the necessary changes are collected as [`TableChange`]s.

use std::mem;

use rustc_hash::FxHashMap;

use super::event::{Key, Record, ScopeId};
use super::shard::Entering;

/// A change to the table because a hold was added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableChange {
    /// A new object got its first holder, or an object is held again because the call that released
    /// its last hold failed.
    Entered(Record, Entering),
    /// The object no longer has any holder.
    Left(Record),
    /// The object's last release was missed, because its handle now names another object.
    Overwritten(Record),
}

/// The objects by key.
#[derive(Debug, Default)]
pub(super) struct SharedObjects {
    all: FxHashMap<Key, SharedObject>,
    /// Whether any object was opened again, which is rare.
    was_any_reopened: bool,
    /// The changes that the table must make now, in this order.
    pub(super) changes: Vec<TableChange>,
}

#[derive(Debug)]
struct SharedObject {
    /// The record of the call that created the object, or of the last call that returned the object
    /// again. If a test opens an object that is already open and does not close it, the test has
    /// leaked the object, just like the test that opened it first.
    record: Record,
    /// The records of earlier calls, oldest first.
    earlier: Vec<Record>,
    /// The sequence number of the object's first record, which distinguishes the object from a
    /// later one under the same key.
    first: u64,
    count: u64,
    /// How many calls are releasing some of the object's holds.
    in_flight: u32,
}

/// Holds that a call in progress releases.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakenHolds {
    /// The object's record.
    pub(super) record: Record,
    /// The sequence number of the object's first record.
    first: u64,
    /// The number of holds that the call releases.
    pub(super) count: u64,
    /// Whether an earlier record has taken the place of this one.
    is_replaced: bool,
}

impl SharedObjects {
    /// Adds a new object with one hold.
    pub(super) fn enter(&mut self, record: Record) {
        let object = SharedObject {
            record,
            earlier: Vec::new(),
            first: record.sequence,
            count: 1,
            in_flight: 0,
        };
        if let Some(old) = self.all.insert(record.key(), object)
            && old.count != 0
        {
            self.changes.push(TableChange::Overwritten(old.record));
        }
        self.changes
            .push(TableChange::Entered(record, Entering::New));
    }

    /// Returns the records of the earlier calls for objects that were opened more than once and are
    /// still open.
    pub(super) fn earlier(&self) -> impl Iterator<Item = &Record> {
        let all = self.was_any_reopened.then(|| self.all.values());
        let held = all.into_iter().flatten().filter(|object| object.count != 0);
        held.flat_map(|object| &object.earlier)
    }

    pub(super) fn is_held(&self, key: &Key) -> bool {
        self.all.get(key).is_some_and(|object| object.count != 0)
    }

    /// Whether the object under `key` is held and was added before the event `sequence`.
    pub(super) fn is_held_since_before(&self, key: &Key, sequence: u64) -> bool {
        let object = self.all.get(key).filter(|object| object.count != 0);
        object.is_some_and(|object| object.record.sequence < sequence)
    }

    /// Adds a hold, because a call returned an object that already exists.
    pub(super) fn enter_again(&mut self, record: Record) {
        if let Some(object) = self.all.get_mut(&record.key()) {
            self.changes.push(TableChange::Left(object.record));
            object
                .earlier
                .push(mem::replace(&mut object.record, record));
            object.count += 1;
            self.changes
                .push(TableChange::Entered(record, Entering::New));
            self.was_any_reopened = true;
        }
    }

    /// Adds `count` holds to an object if the object is held.
    pub(super) fn add(&mut self, key: &Key, count: u64) {
        if let Some(object) = self.all.get_mut(key)
            && object.count != 0
        {
            // The sum saturates, because a recording may contain any number.
            object.count = object.count.saturating_add(count);
        }
    }

    /// Begins a call that releases up to `count` holds.
    pub(super) fn take(&mut self, key: &Key, count: u64) -> Option<TakenHolds> {
        let object = self.all.get_mut(key).filter(|object| object.count != 0)?;
        let record = object.record;
        let count = count.min(object.count);
        object.count -= count;
        object.in_flight += 1;
        let mut is_replaced = false;
        if object.count == 0 {
            self.changes.push(TableChange::Left(record));
        } else if object.earlier.len() as u64 >= object.count {
            // The first close is assumed to belong to the call that opened the object last.
            object.earlier.truncate(object.count as usize);
            if let Some(earlier) = object.earlier.pop() {
                object.record = earlier;
                is_replaced = true;
                self.changes.push(TableChange::Left(record));
                self.changes
                    .push(TableChange::Entered(earlier, Entering::Again));
            }
        }
        let first = object.first;
        Some(TakenHolds {
            record,
            first,
            count,
            is_replaced,
        })
    }

    /// Restores the holds, because the call has failed.
    pub(super) fn put_back(&mut self, taken: TakenHolds) {
        if let Some(object) = of(&mut self.all, &taken) {
            if object.count == 0 {
                object.record = taken.record;
                object.earlier.clear();
                self.changes
                    .push(TableChange::Entered(taken.record, Entering::Again));
            } else if taken.is_replaced {
                self.changes.push(TableChange::Left(object.record));
                let earlier = mem::replace(&mut object.record, taken.record);
                object.earlier.push(earlier);
                self.changes
                    .push(TableChange::Entered(taken.record, Entering::Again));
            }
            object.count = object.count.saturating_add(taken.count);
            object.in_flight -= 1;
        }
    }

    /// Completes the call. Returns whether the object is gone.
    pub(super) fn commit(&mut self, taken: TakenHolds) -> bool {
        let Some(object) = of(&mut self.all, &taken) else {
            return true;
        };
        object.in_flight -= 1;
        let is_gone = object.count == 0 && object.in_flight == 0;
        if is_gone {
            self.all.remove(&taken.record.key());
        }
        is_gone
    }

    /// Hands the object under `key` over, so that no scope is responsible for it. Returns its
    /// previous record.
    pub(super) fn hand_over(&mut self, key: &Key) -> Option<Record> {
        let object = self.all.get_mut(key).filter(|object| object.count != 0)?;
        let before = object.record;
        for record in object.earlier.iter_mut().chain([&mut object.record]) {
            record.made.caller.scope = ScopeId::NOBODY;
        }
        self.changes.push(TableChange::Left(before));
        self.changes
            .push(TableChange::Entered(object.record, Entering::Again));
        Some(before)
    }

    /// Releases `count` holds at once.
    pub(super) fn release(&mut self, key: &Key, count: u64) {
        if let Some(taken) = self.take(key, count) {
            self.commit(taken);
        }
    }

    /// Removes the object, regardless of its holders. Returns the records of the earlier calls that
    /// opened it.
    pub(super) fn forget(&mut self, key: &Key) -> Vec<Record> {
        let object = self.all.remove(key);
        object.map(|object| object.earlier).unwrap_or_default()
    }
}

/// Returns the object that `taken` was released from. This function borrows only one field, so that
/// the other one can be changed at the same time.
fn of<'a>(
    all: &'a mut FxHashMap<Key, SharedObject>,
    taken: &TakenHolds,
) -> Option<&'a mut SharedObject> {
    let object = all.get_mut(&taken.record.key())?;
    (object.first == taken.first).then_some(object)
}
