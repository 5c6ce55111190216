//! Collects what a run has left: live records with their owners, anomalies, and resources that were
//! freed.

use std::cmp::Reverse;

use rustc_hash::{FxHashMap, FxHashSet};

use super::scopes::tree::{self, FailureId, Lineage, NestedDecision};
use crate::judge::{Freed, FreedAt, FreedInside, LiveRecord, MOST_IN_ORDER, Ownership, RunInput};
use crate::ledger::{self, Anomaly, Kind, Mark, Record, ScopeId, StackId, UnknownFree};
use crate::report::check_report::AllowedBy;

/// The largest number of pairs of stacks that are kept for a run. If there are more, the most
/// frequent ones are kept. A pair consists of the stacks of an allocation and of its free. The
/// number is limited because each pair is resolved to lines.
const MOST_FREED: usize = 64;

/// Decides whether a record or an anomaly belongs to a run.
pub(super) struct OfRun<'a> {
    /// The scopes of the run.
    pub(super) lineage: &'a Lineage,
    /// The nested check whose failure ended the body.
    pub(super) failure: Option<FailureId>,
}

impl OfRun<'_> {
    /// Collects the live records, with their owners, that were created inside the run since the
    /// event with this number.
    pub(super) fn collect_records(&self, since: u64, input: &mut RunInput) {
        let ledger = ledger::live();
        let handed_over = ledger
            .scopes
            .all_handed_over(|scope| self.lineage.has(scope));
        input.handed_over = handed_over;
        let records = ledger.select(|record| {
            record.sequence >= since && !self.lineage.was_left_again(record.sequence)
        });
        let of_others = records
            .iter()
            .map(|record| (record.made.caller.scope, record.sequence))
            .filter(|(scope, _)| *scope != ScopeId::NOBODY && !self.lineage.has(*scope));
        let strangers = tree::unanswered(of_others);
        let others_ran = input.others.may_have_moved_sums();
        for record in records {
            let scope = record.made.caller.scope;
            let owner = if scope == ScopeId::NOBODY {
                // The count of resources that were handed over does not include resources of scopes
                // that have ended.
                let is_own = handed_over.count != 0 || !others_ran;
                is_own.then_some(Ownership::HandedOver)
            } else if self.lineage.has(scope) {
                Some(self.own(&record))
            } else if !strangers.contains(&record.sequence) {
                (!others_ran).then_some(Ownership::Another)
            } else if others_ran {
                if input.segments.owner(&record, &input.holdings).is_none() {
                    input.owner_unknown.add(record.made.bytes);
                }
                None
            } else if scope == ScopeId::NONE {
                Some(Ownership::Foreign(record.made.caller.thread))
            } else {
                // A thread whose scope has closed may still be working for an earlier test.
                input.owner_unknown.add(record.made.bytes);
                None
            };
            input
                .live
                .extend(owner.map(|owner| LiveRecord { record, owner }));
        }
    }

    /// Collects the anomalies that occurred inside the run.
    pub(super) fn collect_anomalies(&self, since: Mark, input: &mut RunInput) {
        let ledger = ledger::live();
        let mut anomalies = ledger.anomalies.since(since);
        let alone = !input.others.may_have_moved_sums();
        anomalies.retain(|anomaly| {
            if matches!(anomaly, Anomaly::Overwritten { by: Some(by), .. } if is_live(by)) {
                // The block counts as live; see `collect_overwritten`.
                return false;
            }
            let scope = anomaly.caller().scope;
            let ended = anomaly.ended();
            let is_own = match ended {
                // Resources that were created before the run do not concern it, even if the run
                // ended their context.
                Some(record) if scope != ScopeId::NONE => {
                    self.lineage.has(scope) && record.sequence >= input.began
                }
                _ => self.lineage.has(scope) || (alone && tree::open_scope(scope).is_none()),
            };
            // What a nested check did in a further run is evidence only for that check.
            let is_of_further_run = self
                .lineage
                .is_in_further_run(ended.map_or(scope, |it| it.made.caller.scope));
            let record = match anomaly {
                Anomaly::FailedFree(failed) => failed.record.as_ref(),
                _ => ended,
            };
            let decision = record.and_then(|it| self.lineage.decision(it.sequence));
            let may_stay = ended.is_some_and(|it| {
                self.lineage.reason(it.made.caller.scope).is_some()
                    || matches!(decision, Some(NestedDecision::Allowed(_)))
            });
            let is_decided = matches!(decision, Some(NestedDecision::Failed(by))
                if self.failure == Some(*by));
            is_own && !is_of_further_run && !may_stay && !is_decided
        });
        input.anomalies = anomalies;
    }

    /// Adds blocks that were still live when their allocator reported a new block at the same
    /// address. Until one of the two blocks is freed, both count as live, in this run and in later
    /// runs.
    pub(super) fn collect_overwritten(&self, since: u64, mark: Mark, input: &mut RunInput) {
        let ledger = ledger::live();
        for anomaly in ledger.anomalies.since(mark) {
            let Anomaly::Overwritten {
                record,
                by: Some(by),
            } = anomaly
            else {
                continue;
            };
            let is_own = self.lineage.has(record.made.caller.scope);
            let is_new = record.sequence >= since && !self.lineage.was_left_again(record.sequence);
            if is_own && is_new && record.made.kind == Kind::Block && is_live(&by) {
                let owner = self.own(&record);
                input.live.push(LiveRecord { record, owner });
            }
        }
    }

    /// Returns the owner of a record that the run's own threads created. If a nested check has
    /// already failed because of this record, that check owns it.
    pub(super) fn own(&self, record: &Record) -> Ownership {
        match self.lineage.decision(record.sequence) {
            Some(NestedDecision::Failed(by)) if self.failure == Some(*by) => {
                return Ownership::Another;
            }
            Some(NestedDecision::Allowed(by)) => return Ownership::Allowed(by.clone()),
            Some(NestedDecision::Failed(_)) | None => {}
        }
        match self.lineage.reason(record.made.caller.scope) {
            Some(reason) => Ownership::Allowed(AllowedBy::the_code(reason)),
            None => Ownership::Session,
        }
    }
}

/// Returns the earlier frees at the addresses to which failed frees referred. Only records that
/// were created since the event with this number are considered, because it is unknown whether the
/// address of an earlier record was used again later.
pub(super) fn freed_before(anomalies: &[Anomaly], since: u64) -> Vec<Freed> {
    let failed: FxHashSet<_> = (anomalies.iter())
        .filter_map(|anomaly| match anomaly {
            Anomaly::FailedFree(failed) if failed.record.is_none() => Some(failed.key),
            _ => None,
        })
        .collect();
    if failed.is_empty() {
        return Vec::new();
    }
    let is_meant =
        |record: &Record| record.sequence >= since && failed.iter().any(|key| record.is_at(*key));
    let frees = ledger::live().free_log.frees(is_meant).into_iter();
    let freed = frees.map(|free| Freed {
        record: free.record,
        stack: free.stack,
    });
    freed.collect()
}

/// Returns which of this run's own allocations were freed, if the stacks of frees were captured.
/// `is_all` says whether this scope alone created all allocations of the run.
pub(super) fn freed_by_stack(scope: ScopeId, is_all: bool) -> Vec<FreedAt> {
    let mut events: FxHashMap<_, Vec<_>> = FxHashMap::default();
    let mut are_all_known = is_all;
    for freed in ledger::live()
        .free_log
        .frees(|record| record.made.caller.scope == scope)
    {
        let made = &freed.record.made;
        if freed.stack == StackId::default() {
            are_all_known = false;
            continue;
        }
        let stacks = (made.caller.stack, freed.stack);
        let of_stacks = events.entry((made.layer, made.kind, stacks)).or_default();
        of_stacks.push((freed.record.sequence, freed.before, made.bytes));
    }
    are_all_known &= events.len() <= MOST_FREED;
    let mut freed: Vec<_> = events
        .into_iter()
        .map(|((layer, kind, (allocated, freed)), mut events)| {
            let count = events.len() as u64;
            if !are_all_known || events.len() > MOST_IN_ORDER {
                events.clear();
            }
            FreedAt {
                layer,
                kind,
                allocated,
                freed,
                count,
                events,
            }
        })
        .collect();
    freed.sort_by_key(|it| (Reverse(it.count), it.allocated, it.freed));
    freed.truncate(MOST_FREED);
    freed
}

/// Returns the frees that referred to an address inside one of the `live` records.
pub(super) fn freed_inside(scope: ScopeId, live: &[LiveRecord]) -> Vec<FreedInside> {
    let unknown = ledger::live().free_log.unknown(scope);
    if unknown.is_empty() {
        return Vec::new();
    }
    let mut live: Vec<_> = live.iter().map(|live| &live.record).collect();
    live.sort_unstable_by_key(|record| record.key());
    let inside = unknown
        .into_iter()
        .filter_map(|UnknownFree { key, by, began }| {
            let before = live.partition_point(|record| record.key() <= key);
            let record = live.get(before.checked_sub(1)?)?;
            // If a record was created at this address after the free, it is a different resource.
            let was_there = record.contains(key) && record.sequence < began;
            let record = was_there.then_some(record)?;
            let offset = key.value() - record.made.key.value();
            (offset != 0).then_some(FreedInside {
                record: record.sequence,
                offset,
                stack: by.stack,
            })
        });
    inside.collect()
}

pub(super) fn is_live(record: &Record) -> bool {
    let known = ledger::live().get(&record.key());
    known.is_some_and(|known| known.sequence == record.sequence)
}
