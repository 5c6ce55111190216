//! The resources that were left at one call site, by run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::ledger::event::{ContextEnd, ThreadNumber};
use crate::ledger::{Amount, Kind, Layer, Place, Record, StackId};

/// The key by which records are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupKey {
    pub(crate) class: Class,
    /// The backtrace that represents the call site.
    pub(crate) stack: StackId,
}

/// Everything by which records are grouped except the call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Class {
    pub(crate) layer: Layer,
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    /// How the resource's context ended, if only that freed the resource. `None` if the resource is
    /// live.
    pub(crate) ended: Option<ContextEnd>,
}

impl Class {
    /// Returns the class of `record`, which is live.
    pub(crate) fn of(record: &Record) -> Self {
        let made = &record.made;
        Self {
            layer: made.layer,
            place: made.place,
            kind: made.kind,
            ended: None,
        }
    }
}

/// The largest number of different sizes that a finding lists.
const MOST_SIZES: usize = 3;

/// The records of one group in one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// The number and the total size of the records.
    pub(crate) amount: Amount,
    /// The size of each record, if all sizes are equal.
    pub(crate) each: Option<u64>,
    /// The sequence numbers of the records, in ascending order.
    pub(crate) records: Vec<u64>,
    /// The size of each record, in the order of `records`.
    sizes: Vec<u64>,
}

impl Tally {
    /// Adds a record with this sequence number and size. The sequence number is 0 for anything that
    /// is not a record.
    pub(crate) fn add(&mut self, sequence: u64, bytes: u64) {
        self.each = match (self.amount.count, self.each) {
            (0, _) => Some(bytes),
            (_, each) => each.filter(|each| *each == bytes),
        };
        self.amount.add(bytes);
        self.records.push(sequence);
        self.sizes.push(bytes);
    }

    /// Returns the amount of each size, the smallest first, if there are at least two sizes and at
    /// most [`MOST_SIZES`].
    pub(crate) fn few_sizes(&self) -> Vec<Amount> {
        let mut sizes: BTreeMap<u64, Amount> = BTreeMap::new();
        for bytes in &self.sizes {
            sizes.entry(*bytes).or_default().add(*bytes);
        }
        let are_few = (2..=MOST_SIZES).contains(&sizes.len());
        sizes.into_values().filter(|_| are_few).collect()
    }

    /// Returns the tally of only the records for which `is_wanted` returns `true`.
    pub(crate) fn filtered(&self, is_wanted: impl Fn(u64) -> bool) -> Self {
        let mut part = Self::default();
        part.extend(self, is_wanted);
        part
    }

    /// Adds the records of `other` for which `is_wanted` returns `true`.
    fn extend(&mut self, other: &Self, is_wanted: impl Fn(u64) -> bool) {
        for (sequence, bytes) in other.records.iter().zip(&other.sizes) {
            if is_wanted(*sequence) {
                self.add(*sequence, *bytes);
            }
        }
    }

    /// Removes these records and returns their total amount.
    fn forget(&mut self, records: &FxHashSet<u64>) -> Amount {
        let before = self.amount;
        *self = self.filtered(|sequence| !records.contains(&sequence));
        before.minus(self.amount)
    }
}

/// The resources that the runs of a check left at one call site.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) key: GroupKey,
    /// The resources that each run left.
    pub(crate) left: Vec<Tally>,
    /// The resources of each run that are still live after the last run.
    pub(crate) kept: Vec<Tally>,
    /// The resources live after each run, from that run and all earlier ones.
    pub(crate) level: Vec<Amount>,
    /// How many times each run allocated at this call site.
    pub(crate) allocated: Vec<u64>,
    /// For each run, how many of the resources that it allocated at this call site are live at its
    /// end, no matter who owns them.
    pub(crate) live: Vec<u64>,
    /// The user's line, if known.
    pub(crate) line: Option<(Arc<str>, u32)>,
    /// The threads that allocated the leaked resources.
    pub(crate) threads: BTreeSet<ThreadNumber>,
    /// A thread that allocated some of the resources outside any scope.
    pub(crate) foreign_thread: Option<ThreadNumber>,
    /// The backtraces that belong to this call site.
    pub(crate) stacks: BTreeSet<StackId>,
    /// The backtrace of the call that ended the context, if only that freed the resource.
    pub(crate) ended_by: Option<StackId>,
}

impl Group {
    pub(crate) fn new(key: GroupKey, runs: usize) -> Self {
        Self {
            key,
            left: vec![Tally::default(); runs],
            kept: vec![Tally::default(); runs],
            level: vec![Amount::default(); runs],
            allocated: vec![0; runs],
            live: vec![0; runs],
            line: None,
            threads: BTreeSet::new(),
            foreign_thread: None,
            stacks: BTreeSet::new(),
            ended_by: None,
        }
    }

    /// Returns a tally of `amount`, which is part of what run `run` left. The tally has no sequence
    /// numbers.
    pub(crate) fn part(&self, run: usize, amount: Amount) -> Tally {
        Tally {
            amount,
            each: self.left[run].each,
            ..Tally::default()
        }
    }

    /// Returns the resources that run `run` left and a later run freed.
    pub(crate) fn freed_later(&self, run: usize) -> Amount {
        self.left[run].amount.minus(self.kept[run].amount)
    }

    /// Removes these records, which are reported as part of another finding.
    pub(crate) fn forget(&mut self, records: &FxHashSet<u64>) {
        for run in 0..self.left.len() {
            let forgotten = self.left[run].forget(records);
            self.kept[run].forget(records);
            for level in &mut self.level[run..] {
                *level = level.minus(forgotten);
            }
            // A record that is live only because a free failed must not be counted as an allocation
            // that was freed.
            self.allocated[run] = self.allocated[run].saturating_sub(forgotten.count);
            self.live[run] = self.live[run].saturating_sub(forgotten.count);
        }
    }

    /// Returns the first run that left something.
    pub(crate) fn first_run(&self) -> Option<usize> {
        self.left.iter().position(|left| !left.amount.is_zero())
    }

    /// Returns everything that is kept, from all runs.
    pub(crate) fn kept_in_all(&self) -> Tally {
        let mut sum = Tally::default();
        for kept in &self.kept {
            sum.extend(kept, |_| true);
        }
        sum
    }
}
