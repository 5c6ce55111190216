//! What a reading at the end of a scope says: which of what is there now was left by it.

use std::collections::BTreeMap;

use super::Stretch;
use crate::check::family::Family;
use crate::check::measure::measured::Unknown;
use crate::check::measure::remarks;
use crate::check::names::Names;
use crate::check::recording::{Looked, Seen};
use crate::judge::{self, Held, Refused, What};
use crate::ledger::event::ThreadNumber;
use crate::ledger::{Anomaly, Kind, Record, ScopeId};
use crate::report::model::PrimaryKept;

/// What a reading at the end showed.
#[derive(Debug)]
pub(crate) struct Left {
    pub(super) seen: Seen,
    pub(super) held: Vec<Held>,
    pub(super) tolerated: Vec<Held>,
    pub(super) allowed: Vec<Held>,
    pub(super) handed_over: Vec<Held>,
    pub(super) owner_unknown: Unknown,
    pub(super) refused: Vec<Refused>,
    pub(super) notes: Vec<String>,
    pub(super) primaries: Vec<PrimaryKept>,
}

impl Stretch<'_> {
    /// Judges what is in the ledger now, and what was seen beside it. Asks nothing else.
    pub(crate) fn look(&self, looked: &Looked, names: &dyn Names) -> Left {
        let Looked { limits, seen, .. } = looked;
        let mut left = Left {
            seen: seen.clone(),
            held: Vec::new(),
            tolerated: Vec::new(),
            allowed: Vec::new(),
            handed_over: Vec::new(),
            owner_unknown: Unknown::default(),
            refused: Vec::new(),
            notes: Vec::new(),
            primaries: Vec::new(),
        };
        let live = self.live_records(looked, names, &mut left);
        let kept = self.ledger.primaries_kept(|scope| seen.family.has(scope));
        left.primaries = kept
            .into_iter()
            .map(|(place, times)| PrimaryKept { place, times })
            .collect();
        self.anomalies(seen, &live, &mut left);
        // An allocator's figures have no owner: what strangers did would be taken for the test's.
        let all_is_the_test_s = !self.strangers_may_run(seen) && left.owner_unknown.count == 0;
        let unreported = judge::handed_out(&self.before, &seen.after, limits.tolerance);
        if all_is_the_test_s {
            left.held.extend(unreported);
        } else {
            left.notes
                .extend(unreported.iter().filter_map(remarks::not_judged));
        }
        let reserves = judge::risen(&self.before, &seen.after, limits.reserved_tolerance);
        let alone = [&mut left.held, &mut left.allowed, &mut left.handed_over]
            .into_iter()
            .fold(reserves, |alone, live| judge::unexplained(alone, live));
        if seen.met_a_check && !left.held.is_empty() {
            left.notes.push(
                "other checks ran at the same time: the tables count what they took too".to_owned(),
            );
        }
        if all_is_the_test_s {
            left.held.extend(alone);
        } else {
            left.notes
                .extend(alone.iter().filter_map(remarks::not_judged));
        }
        left
    }

    /// Whether others have taken, or may have taken, something that need not be this test's.
    fn strangers_may_run(&self, seen: &Seen) -> bool {
        seen.met_a_check || (self.ledger.unowned() != self.unowned && !seen.alone)
    }

    /// What is live and was made inside: grouped in `left`, and the records themselves.
    fn live_records(&self, looked: &Looked, names: &dyn Names, left: &mut Left) -> Vec<Record> {
        let Looked { limits, seen, .. } = looked;
        let (ledger, family) = (self.ledger, &seen.family);
        let mut records = Vec::new();
        let handed_over = ledger.handed_over(|scope| family.has(scope));
        if handed_over.count != 0 {
            left.notes.push(remarks::handed_over(handed_over));
            let is_nobody_s = |record: &Record| {
                record.made.caller.scope == ScopeId::NOBODY && record.sequence >= self.began
            };
            left.handed_over = group_live(&ledger.select(is_nobody_s), |_| None);
        }
        if ledger.live_in(self.scope) != 0 || !family.is_single() {
            records.extend(ledger.select(|record| {
                record.sequence >= seen.since && family.has(record.made.caller.scope)
            }));
        }
        if ledger.unowned() != self.unowned {
            let mut strangers = ledger.select(|record| self.is_a_stranger(record, seen));
            if seen.alone {
                // A thread whose scope has closed may be at an earlier test's work still.
                let is_of_none = |record: &mut Record| record.made.caller.scope == ScopeId::NONE;
                records.extend(strangers.extract_if(.., is_of_none));
            }
            left.owner_unknown.count = strangers.len() as u64;
            left.owner_unknown.bytes =
                judge::total(strangers.iter().map(|record| record.made.bytes));
        }
        if records.is_empty() {
            return records;
        }
        let holdings = ledger.holdings();
        records.retain(|record| {
            seen.claims.owner(record, &holdings).is_none() && !is_the_runtime_s_code(record, names)
        });
        let foreign = |record: &Record| {
            (!family.has(record.made.caller.scope)).then_some(record.made.caller.thread)
        };
        left.allowed = take_allowed(&mut records, family);
        left.held = group_live(&records, foreign);
        left.tolerated = judge::tolerate(limits.tolerance, &mut left.held);
        judge::tell_what_holds(&records, &holdings, &mut left.held);
        left.notes
            .extend(remarks::tolerance(limits, &left.tolerated, &left.held));
        for held in &mut left.held {
            let taken = ledger.taken(held.key.stack, self.scope);
            held.taken = taken.unwrap_or(held.count).max(held.count);
        }
        records
    }

    /// Made inside, by a thread of no open scope.
    fn is_a_stranger(&self, record: &Record, seen: &Seen) -> bool {
        record.sequence >= seen.since && seen.family.is_a_stranger(record, self.ledger)
    }

    /// What happened inside beside the coming and going of records.
    fn anomalies(&self, seen: &Seen, live: &[Record], left: &mut Left) {
        let mine = |anomaly: &Anomaly| {
            let scope = anomaly.caller().scope;
            seen.family.has(scope) || (!self.ledger.is_open(scope) && seen.alone)
        };
        let mut anomalies = self.ledger.anomalies_since(self.mark);
        // What may stay may also go so.
        let may_stay = |anomaly: &Anomaly| {
            matches!(anomaly, Anomaly::EndedWithContext { record, .. }
                if seen.family.reason(record.made.caller.scope).is_some())
        };
        anomalies.retain(|anomaly| mine(anomaly) && !may_stay(anomaly));
        judge::happened(&anomalies, !seen.poisoned.is_empty(), live, &mut left.held);
        left.refused = judge::refused(&anomalies);
    }
}

fn group_live(records: &[Record], foreign: impl Fn(&Record) -> Option<ThreadNumber>) -> Vec<Held> {
    let live = |record: &Record| (*record, What::Live(record.made.kind), foreign(record));
    judge::group(records.iter().map(live))
}

/// Takes out what may stay by the word of the code that made it: for each reason what was taken
/// where.
fn take_allowed(records: &mut Vec<Record>, family: &Family) -> Vec<Held> {
    let mut by_reason: BTreeMap<&str, Vec<Record>> = BTreeMap::new();
    records.retain(|record| match family.reason(record.made.caller.scope) {
        Some(reason) => {
            by_reason.entry(reason).or_default().push(*record);
            false
        }
        None => true,
    });
    let mut allowed = Vec::new();
    for (reason, records) in by_reason {
        for mut held in group_live(&records, |_| None) {
            held.taken = held.count;
            held.allowed = Some(reason.to_owned());
            allowed.push(held);
        }
    }
    allowed
}

/// Code that CUDA's own libraries loaded when they first needed it stays for the process.
pub(in crate::check) fn is_the_runtime_s_code(record: &Record, names: &dyn Names) -> bool {
    matches!(record.made.kind, Kind::Module | Kind::Library)
        && names.is_cudas_own(record.made.caller.stack)
}
