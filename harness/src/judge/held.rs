//! What a run left behind, put together by where it was taken.

use std::collections::BTreeMap;

use super::reading::LevelName;
use crate::ledger::event::{ContextEnd, CuResult, ThreadNumber};
use crate::ledger::{Kind, Layer, Place, Record, StackId};

/// What makes two records the same finding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HeldKey {
    /// The allocator.
    pub(crate) layer: Layer,
    /// The place.
    pub(crate) place: Place,
    /// What sort of thing.
    pub(crate) what: What,
    /// Where it was taken.
    pub(crate) stack: StackId,
}

impl HeldKey {
    /// That of `record`, seen as `what`.
    pub(crate) fn of(record: &Record, what: What) -> Self {
        let made = &record.made;
        Self {
            layer: made.layer,
            place: made.place,
            what,
            stack: made.caller.stack,
        }
    }
}

/// What sort of thing a run left behind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum What {
    /// Live at the end.
    Live(Kind),
    /// Live at the end because the call that should have freed it failed there.
    FailedFree {
        /// What it is; none for an address the ledger does not know.
        kind: Option<Kind>,
        /// The driver's answer.
        error: CuResult,
        /// Where it was called.
        at: StackId,
    },
    /// Gone only because its context ended.
    EndedWithContext(Kind, ContextEnd),
    /// What an allocator has handed out, in sum: nobody reports its blocks.
    HandedOut,
    /// An allocator's reserve.
    Reserve(LevelName),
}

/// One finding in the making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// What, and where it was taken.
    pub(crate) key: HeldKey,
    /// How many.
    pub(crate) count: u64,
    /// How many bytes in all.
    pub(crate) bytes: u64,
    /// The size of each, where all have the same.
    pub(crate) each: Option<u64>,
    /// How often this place took one during the run.
    pub(crate) taken: u64,
    /// The sequence numbers of the first and the last, where they are known.
    pub(crate) moments: Option<(u64, u64)>,
    /// The thread outside every scope that took them.
    pub(crate) foreign_thread: Option<ThreadNumber>,
    /// Why it may stay, where the code that made it says so.
    pub(crate) allowed: Option<String>,
    /// More about it.
    pub(crate) notes: Vec<String>,
}

impl Held {
    /// Nothing yet under `key`.
    pub(crate) fn new(key: HeldKey) -> Self {
        Self {
            key,
            count: 0,
            bytes: 0,
            each: None,
            taken: 0,
            moments: None,
            foreign_thread: None,
            allowed: None,
            notes: Vec::new(),
        }
    }

    /// What `other` counts is counted here.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.each = self.each.filter(|_| self.each == other.each);
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.taken = self.taken.saturating_add(other.taken);
        if let Some((first, last)) = other.moments {
            self.at(first);
            self.at(last);
        }
        self.foreign_thread = self.foreign_thread.or(other.foreign_thread);
        let known = &mut self.notes;
        let new = other.notes.into_iter();
        let new: Vec<_> = new.filter(|note| !known.contains(note)).collect();
        known.extend(new);
    }

    /// One was made at this moment.
    pub(crate) fn at(&mut self, sequence: u64) {
        let (first, last) = self.moments.unwrap_or((sequence, sequence));
        self.moments = Some((first.min(sequence), last.max(sequence)));
    }

    /// One more of `bytes`.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.each = match (self.count, self.each) {
            (0, _) => Some(bytes),
            (_, Some(each)) if each == bytes => Some(each),
            _ => None,
        };
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// `count` linear allocations of 8 bytes that a test's stack took on the first device.
#[cfg(test)]
pub(crate) fn taken_at(stack: u32, count: u64) -> Held {
    let mut held = Held::new(HeldKey {
        layer: Layer::DRIVER,
        place: Place::cuda(0),
        what: What::Live(Kind::Linear),
        stack: StackId(stack),
    });
    (0..count).for_each(|_| held.add(8));
    held
}

/// Puts records together that are the same sort of thing, taken at the same place.
pub(crate) fn group(
    records: impl IntoIterator<Item = (Record, What, Option<ThreadNumber>)>,
) -> Vec<Held> {
    let mut groups: BTreeMap<HeldKey, Held> = BTreeMap::new();
    for (record, what, foreign_thread) in records {
        let key = HeldKey::of(&record, what);
        let held = groups.entry(key.clone()).or_insert_with(|| Held::new(key));
        held.add(record.made.bytes);
        held.at(record.sequence);
        held.foreign_thread = foreign_thread.or(held.foreign_thread);
    }
    groups.into_values().collect()
}

/// A sum of sizes. A recording may name any, so it stays at the end of the numbers.
pub(crate) fn total(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}
