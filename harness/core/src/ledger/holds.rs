//! Objects that live as long as something holds them: references, maps.
//!
//! Such an object has one record, however many hold it. Pure bookkeeping; what comes and goes in
//! the table is told as [`TableChange`]s.

use std::mem;

use rustc_hash::FxHashMap;

use super::event::{Key, Record, ScopeId};

/// What happens to the table because of holds that came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableChange {
    /// A new object, and something holds it.
    Appeared(Record),
    /// Something holds it again: the call that gave its last holds back has failed.
    Reappeared(Record),
    /// Nothing holds it any more.
    Vanished(Record),
    /// Its last holds were not seen to go: its name stands for something else now.
    Overwritten(Record),
}

/// Objects by their keys.
#[derive(Debug, Default)]
pub(super) struct SharedObjects(FxHashMap<Key, SharedObject>);

#[derive(Debug)]
struct SharedObject {
    /// Of the call that made it, or of the last one that was answered with it again: a test that opens what
    /// is open already, and does not close it, is to blame as if it had been the first.
    record: Record,
    /// What stood there before, oldest first.
    earlier: Vec<Record>,
    /// The sequence of its first record, which tells it from a later object under its key.
    first: u64,
    /// How much holds it.
    count: u64,
    /// How many calls are giving some of its holds back.
    in_flight: u32,
}

/// Holds that a call gives back, until it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct GivenBack {
    /// The object's record.
    pub(super) record: Record,
    /// The sequence of the object's first record.
    first: u64,
    count: u64,
    /// Whether an earlier record stands there now.
    is_replaced: bool,
}

impl GivenBack {
    /// How many holds.
    pub(super) fn count(&self) -> u64 {
        self.count
    }
}

impl SharedObjects {
    /// A new object with one hold.
    pub(super) fn enter(&mut self, record: Record, changes: &mut Vec<TableChange>) {
        let object = SharedObject {
            record,
            earlier: Vec::new(),
            first: record.sequence,
            count: 1,
            in_flight: 0,
        };
        if let Some(old) = self.0.insert(record.key(), object)
            && old.count != 0
        {
            changes.push(TableChange::Overwritten(old.record));
        }
        changes.push(TableChange::Appeared(record));
    }

    /// Of what was opened more than once and is still open, the records of the earlier calls.
    pub(super) fn earlier(&self) -> impl Iterator<Item = &Record> {
        let held = self.0.values().filter(|object| object.count != 0);
        held.flat_map(|object| &object.earlier)
    }

    /// Whether anything holds what is under `key`.
    pub(super) fn is_held(&self, key: &Key) -> bool {
        self.0.get(key).is_some_and(|object| object.count != 0)
    }

    /// Whether anything holds what is under `key` and was entered before the event `sequence`.
    pub(super) fn is_held_since_before(&self, key: &Key, sequence: u64) -> bool {
        let object = self.0.get(key).filter(|object| object.count != 0);
        object.is_some_and(|object| object.record.sequence < sequence)
    }

    /// A call was answered with what is there already, and holds it once more.
    pub(super) fn enter_again(&mut self, record: Record, changes: &mut Vec<TableChange>) {
        if let Some(object) = self.0.get_mut(&record.key()) {
            changes.push(TableChange::Vanished(object.record));
            object
                .earlier
                .push(mem::replace(&mut object.record, record));
            object.count += 1;
            changes.push(TableChange::Appeared(record));
        }
    }

    /// `count` holds more of what is held already; nothing where it is not.
    pub(super) fn add(&mut self, key: &Key, count: u64) {
        if let Some(object) = self.0.get_mut(key)
            && object.count != 0
        {
            // A recording may name any number.
            object.count = object.count.saturating_add(count);
        }
    }

    /// A call begins to give `count` holds back, or as many as there are.
    pub(super) fn take(
        &mut self,
        key: &Key,
        count: u64,
        changes: &mut Vec<TableChange>,
    ) -> Option<GivenBack> {
        let object = self.0.get_mut(key).filter(|object| object.count != 0)?;
        let record = object.record;
        let count = count.min(object.count);
        object.count -= count;
        object.in_flight += 1;
        let mut is_replaced = false;
        if object.count == 0 {
            changes.push(TableChange::Vanished(record));
        } else if object.earlier.len() as u64 >= object.count {
            // The last to open is taken for the first to close.
            object.earlier.truncate(object.count as usize);
            if let Some(earlier) = object.earlier.pop() {
                object.record = earlier;
                is_replaced = true;
                changes.push(TableChange::Vanished(record));
                changes.push(TableChange::Reappeared(earlier));
            }
        }
        let first = object.first;
        Some(GivenBack {
            record,
            first,
            count,
            is_replaced,
        })
    }

    /// That call has failed.
    pub(super) fn put_back(&mut self, taken: GivenBack, changes: &mut Vec<TableChange>) {
        if let Some(object) = self.of(&taken) {
            if object.count == 0 {
                object.record = taken.record;
                object.earlier.clear();
                changes.push(TableChange::Reappeared(taken.record));
            } else if taken.is_replaced {
                changes.push(TableChange::Vanished(object.record));
                let earlier = mem::replace(&mut object.record, taken.record);
                object.earlier.push(earlier);
                changes.push(TableChange::Reappeared(taken.record));
            }
            object.count = object.count.saturating_add(taken.count);
            object.in_flight -= 1;
        }
    }

    /// That call has succeeded. Answers whether the object is gone for good.
    pub(super) fn commit(&mut self, taken: GivenBack) -> bool {
        let Some(object) = self.of(&taken) else {
            return true;
        };
        object.in_flight -= 1;
        let is_gone = object.count == 0 && object.in_flight == 0;
        if is_gone {
            self.0.remove(&taken.record.key());
        }
        is_gone
    }

    /// What is under `key` is another's to give back from now on. Answers its record from before.
    pub(super) fn hand_over(
        &mut self,
        key: &Key,
        changes: &mut Vec<TableChange>,
    ) -> Option<Record> {
        let object = self.0.get_mut(key).filter(|object| object.count != 0)?;
        let before = object.record;
        for record in object.earlier.iter_mut().chain([&mut object.record]) {
            record.made.caller.scope = ScopeId::NOBODY;
        }
        changes.push(TableChange::Vanished(before));
        changes.push(TableChange::Reappeared(object.record));
        Some(before)
    }

    /// Gives `count` holds back at once.
    pub(super) fn give_back(&mut self, key: &Key, count: u64, changes: &mut Vec<TableChange>) {
        if let Some(taken) = self.take(key, count, changes) {
            self.commit(taken);
        }
    }

    /// The object is gone, whatever holds it.
    pub(super) fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }

    fn of(&mut self, taken: &GivenBack) -> Option<&mut SharedObject> {
        let object = self.0.get_mut(&taken.record.key())?;
        (object.first == taken.first).then_some(object)
    }
}
