//! Objects that live as long as something holds them: references, maps.
//!
//! Such an object has one record, however many hold it. Pure bookkeeping; what comes and goes in
//! the table is told as [`Change`]s.

use rustc_hash::FxHashMap;

use super::event::Key;
use super::record::Record;

/// What happens to the table because of holds that came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
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
pub(super) struct Holds(FxHashMap<Key, Object>);

#[derive(Debug)]
struct Object {
    record: Record,
    /// How much holds it.
    count: u64,
    /// How many calls are giving some of its holds back.
    in_flight: u32,
}

/// Holds that a call gives back, until it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// The object's record, whose sequence tells it from a later one under its key.
    pub(super) record: Record,
    count: u64,
}

impl Taken {
    /// How many holds.
    pub(super) fn count(&self) -> u64 {
        self.count
    }
}

impl Holds {
    /// A new object with one hold.
    pub(super) fn enter(&mut self, record: Record, changes: &mut Vec<Change>) {
        let object = Object {
            record,
            count: 1,
            in_flight: 0,
        };
        if let Some(old) = self.0.insert(record.key(), object)
            && old.count != 0
        {
            changes.push(Change::Overwritten(old.record));
        }
        changes.push(Change::Appeared(record));
    }

    /// Whether anything holds what is under `key`.
    pub(super) fn is_held(&self, key: &Key) -> bool {
        self.0.get(key).is_some_and(|object| object.count != 0)
    }

    /// The record under `key`, if it was entered before `moment` and something holds it.
    pub(super) fn held_since_before(&self, key: &Key, moment: u64) -> Option<Record> {
        let object = self.0.get(key)?;
        (object.count != 0 && object.record.sequence < moment).then_some(object.record)
    }

    /// `count` holds more of what is held already; nothing where it is not.
    pub(super) fn add(&mut self, key: &Key, count: u64) {
        if let Some(object) = self.0.get_mut(key)
            && object.count != 0
        {
            object.count += count;
        }
    }

    /// A call begins to give `count` holds back, or as many as there are.
    pub(super) fn take(
        &mut self,
        key: &Key,
        count: u64,
        changes: &mut Vec<Change>,
    ) -> Option<Taken> {
        let object = self.0.get_mut(key).filter(|object| object.count != 0)?;
        let record = object.record;
        let count = count.min(object.count);
        object.count -= count;
        object.in_flight += 1;
        if object.count == 0 {
            changes.push(Change::Vanished(record));
        }
        Some(Taken { record, count })
    }

    /// That call has failed.
    pub(super) fn put_back(&mut self, taken: Taken, changes: &mut Vec<Change>) {
        if let Some(object) = self.of(&taken) {
            if object.count == 0 {
                changes.push(Change::Reappeared(object.record));
            }
            object.count += taken.count;
            object.in_flight -= 1;
        }
    }

    /// That call has succeeded. Answers whether the object is gone for good.
    pub(super) fn commit(&mut self, taken: Taken) -> bool {
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

    /// Gives `count` holds back at once.
    pub(super) fn give_back(&mut self, key: &Key, count: u64, changes: &mut Vec<Change>) {
        if let Some(taken) = self.take(key, count, changes) {
            self.commit(taken);
        }
    }

    /// The object is gone, whatever holds it.
    pub(super) fn forget(&mut self, key: &Key) {
        self.0.remove(key);
    }

    fn of(&mut self, taken: &Taken) -> Option<&mut Object> {
        let object = self.0.get_mut(&taken.record.key())?;
        (object.record.sequence == taken.record.sequence).then_some(object)
    }
}
