//! A scope between two readings: what is live at its end and was made inside.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use gpu_leak_check_threads as threads;
use serde::{Deserialize, Serialize};

use super::body::End;
use super::company::Company;
use super::family::{self, Family};
use super::measure::{Measured, Unknown};
use super::names::{Live, Names};
use super::open::{Open, current};
use super::recording::{self, Began, BodyEnded, Finished, Looked};
use super::remarks;
use super::sources::{self, Poisoned};
use super::timeline;
use super::uncovered::{Probes, take_uncovered};
use crate::config::Policy;
use crate::judge::{self, Budget, Claims, Held, Over, Reading, Refused, What};
use crate::ledger::event::ThreadNumber;
use crate::ledger::{self, Anomaly, Kind, Ledger, Mark, Record, Returned, ScopeId, Watch};

/// What may stay.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Limits {
    pub(crate) tolerance: u64,
    pub(crate) reserved_tolerance: u64,
    /// How often the body may run to see what grows; 1 or less: it is judged by what it leaves.
    #[serde(default)]
    pub(crate) rounds: u32,
}

/// What there is to see at the end, beside the ledger.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    poisoned: Vec<Poisoned>,
    after: Reading,
    claims: Claims,
    /// The allocators that have a probe.
    #[serde(default)]
    probed: Vec<String>,
    family: Family,
    since: u64,
    /// Whether nothing but this check could run.
    alone: bool,
    /// Whether another check was at work meanwhile.
    met_a_check: bool,
}

impl Seen {
    fn probes(&self) -> Probes<'_> {
        Probes {
            names: &self.probed,
            claims: &self.claims,
        }
    }
}

/// A scope between its beginning and its end.
#[derive(Debug)]
pub(crate) struct Stretch<'ledger> {
    ledger: &'ledger Ledger,
    scope: ScopeId,
    /// None in a replay, which opens and closes where the recorded scope was.
    open: Option<Open>,
    began: u64,
    events_before: u64,
    /// What was made since then and is live counts as left: by this run, or by earlier rounds too.
    since: u64,
    budget: Budget,
    unowned: u64,
    mark: Mark,
    before: Reading,
    poisoned_before: Vec<Poisoned>,
    watch: Watch<'ledger>,
}

/// The end of a body, with everything that it has not given back.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The ledger's moment.
    at: u64,
    /// How many events it has had by then.
    events: u64,
    /// The limits that the body passed.
    over: Vec<Over>,
    /// What was reserved then, as far as it was read.
    reserved: Reading,
}

/// What a reading at the end showed.
#[derive(Debug)]
pub(crate) struct Left {
    seen: Seen,
    held: Vec<Held>,
    tolerated: Vec<Held>,
    allowed: Vec<Held>,
    handed_over: Vec<Held>,
    owner_unknown: Unknown,
    refused: Vec<Refused>,
    notes: Vec<String>,
}

impl<'ledger> Stretch<'ledger> {
    /// Begins one here and now, for the test called `name`.
    pub(crate) fn begin(name: &str, company: Company<'_>, budget: Budget) -> Self {
        let ledger = ledger::live();
        let outer = current();
        let poisoned = sources::synchronise(ScopeId::NONE);
        if outer.is_none() {
            sources::empty_caches();
        }
        if outer.is_none() && !company.met_a_check() {
            ledger.counters().restart_peaks();
        }
        if budget.reserved.is_some() {
            sources::restart_most_reserved();
        }
        let before = sources::read();
        let open = Open::new();
        let began = Began {
            scope: open.scope(),
            outer,
            budget,
            test: name.to_owned(),
            before,
            poisoned,
        };
        ledger.between_events(|| {
            recording::began(&began);
            Self {
                open: Some(open),
                ..Self::began(ledger, began)
            }
        })
    }

    /// That of a scope which is open already.
    pub(crate) fn began(ledger: &'ledger Ledger, began: Began) -> Self {
        let scope = began.scope;
        if let Some(outer) = began.outer {
            ledger.nest(scope, outer);
        }
        if let Some(layer) = began.budget.metered() {
            ledger.meter(scope, layer);
        }
        let now = ledger.now();
        Self {
            ledger,
            scope,
            open: None,
            budget: began.budget,
            since: now,
            began: now,
            events_before: ledger.events(),
            before: began.before,
            watch: ledger.watch(),
            poisoned_before: began.poisoned,
            unowned: ledger.unowned(),
            mark: ledger.mark(),
        }
    }

    /// What its threads have as their token.
    pub(crate) fn scope(&self) -> ScopeId {
        self.scope
    }

    /// What was made since `moment` counts as left by this run too.
    pub(super) fn count_since(&mut self, moment: u64) {
        self.since = moment;
    }

    /// The body is at its end: to be told before anything is given back.
    pub(super) fn end_body(&self) -> Ended {
        let at_most = match self.budget.reserved {
            Some(_) => sources::read_most_reserved(),
            None => sources::read_probed(),
        };
        self.ledger.between_events(|| {
            let ended = BodyEnded {
                scope: self.scope,
                at_most,
            };
            recording::body_ended(&ended);
            self.ended(&ended)
        })
    }

    /// What is known at the end of the body.
    pub(crate) fn ended(&self, ended: &BodyEnded) -> Ended {
        let mut over = self.budget.passed_by(self.ledger.metered(self.scope));
        over.extend(self.budget.passed_by_reserve(&self.before, &ended.at_most));
        Ended {
            at: self.ledger.now(),
            events: self.ledger.events(),
            over,
            reserved: ended.at_most.clone(),
        }
    }

    /// Looks until nothing is left, nothing can still be freed, or the time is up.
    pub(crate) fn settle(&self, policy: &Policy, company: Company<'_>) -> Left {
        let limits = Limits {
            tolerance: policy.tolerance,
            reserved_tolerance: policy.reserved_tolerance,
            rounds: policy.rounds,
        };
        let start = Instant::now();
        let mut reread = false;
        loop {
            let seen = self.see(company);
            let step = self.ledger.between_events(|| {
                let looked = Looked {
                    scope: self.scope,
                    limits,
                    seen,
                };
                let left = self.look(&looked, &Live);
                let pause = if left.held.is_empty() {
                    None
                } else if self.could_still_free(&looked.seen) && start.elapsed() < policy.settle {
                    Some(Duration::from_millis(1))
                } else if reread {
                    None
                } else {
                    reread = true;
                    Some(Duration::from_millis(10).min(policy.settle))
                };
                if pause.is_none() {
                    recording::looked(&looked);
                }
                pause.map_or(Ok(left), Err)
            });
            match step {
                Ok(left) => return left,
                Err(pause) => thread::sleep(pause),
            }
        }
    }

    /// Whether a free is in flight, or a thread that works for this scope lives on.
    fn could_still_free(&self, seen: &Seen) -> bool {
        self.ledger.releases_in_flight()
            || threads::live(u64::from(self.scope.0)) != 0
            || seen.family.has_live_threads_in_parts()
    }

    /// Waits for the devices, empties the caches and reads everything.
    fn see(&self, company: Company<'_>) -> Seen {
        let poisoned = sources::synchronise(self.scope);
        if poisoned.is_empty() {
            sources::empty_caches();
        }
        let after = sources::read();
        let family = family::of(self.scope);
        // Whose segments they are matters only where something is left, or to whom replays it.
        let claims = if self.may_have_left(&family) || recording::is_on() {
            sources::claims()
        } else {
            Claims::default()
        };
        recording::symbols_so_far();
        Seen {
            poisoned,
            after,
            claims,
            probed: sources::probed(),
            family,
            since: self.since,
            alone: company.is_none(),
            met_a_check: company.met_a_check(),
        }
    }

    /// Whether any record can be this check's business, live or not.
    fn may_have_left(&self, family: &Family) -> bool {
        self.ledger.live_in(self.scope) != 0
            || !family.is_single()
            || self.ledger.unowned() != self.unowned
            || !self.ledger.anomalies_since(self.mark).is_empty()
    }

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
        };
        self.live_records(looked, names, &mut left);
        self.anomalies(seen, &mut left);
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

    /// What is live and was made inside.
    fn live_records(&self, looked: &Looked, names: &dyn Names, left: &mut Left) {
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
            return;
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
    }

    /// Made inside, by a thread of no open scope.
    fn is_a_stranger(&self, record: &Record, seen: &Seen) -> bool {
        record.sequence >= seen.since && seen.family.is_a_stranger(record, self.ledger)
    }

    /// What happened inside beside the coming and going of records.
    fn anomalies(&self, seen: &Seen, left: &mut Left) {
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
        judge::happened(&anomalies, !seen.poisoned.is_empty(), &mut left.held);
        left.refused = judge::refused(&anomalies);
    }

    /// Ends it with what was left.
    pub(crate) fn finish(mut self, as_expected: bool, ended: Ended, left: Left) -> Measured {
        let returned = self.open.take().map(Open::close).unwrap_or_default();
        let finished = Finished {
            scope: self.scope,
            as_expected,
        };
        let ledger = self.ledger;
        ledger.between_events(|| {
            recording::finished(finished);
            self.finished(finished, ended, left, returned, &Live)
        })
    }

    /// What the run of a scope that was closed came to.
    pub(crate) fn finished(
        self,
        finished: Finished,
        ended: Ended,
        mut left: Left,
        returned: Returned,
        names: &dyn Names,
    ) -> Measured {
        let over = self.ledger.now();
        let saw_events = over != self.began;
        let uncovered = take_uncovered(&mut left.held, &left.seen.probes(), names);
        let mut notes = left.notes;
        notes.extend(remarks::returned(returned.count, returned.bytes));
        let poisoned_before = self.poisoned_before.into_iter().next();
        let poisoned_inside = if poisoned_before.is_some() {
            None
        } else {
            left.seen.poisoned.into_iter().next()
        };
        let ran = timeline::Ran {
            began: self.began,
            ended: ended.at,
            over,
            before: &self.before,
            reserved: &ended.reserved,
            after: &left.seen.after,
        };
        let timeline = timeline::of_run(
            &ran,
            self.ledger.counters().courses(&self.watch, self.began),
        );
        Measured {
            scope: self.scope,
            began: self.began,
            end: End::Passed,
            over: ended.over,
            as_expected: finished.as_expected,
            body_time: Duration::ZERO,
            before: self.before,
            after: left.seen.after,
            held: left.held,
            tolerated: left.tolerated,
            allowed: left.allowed,
            uncovered,
            refused: left.refused,
            ended: ended.at,
            events: ended.events - self.events_before,
            notes,
            owner_unknown: left.owner_unknown,
            poisoned_before,
            poisoned_inside,
            saw_events,
            timeline,
        }
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
            held.notes.push(remarks::allowed(reason));
            allowed.push(held);
        }
    }
    allowed
}

/// Code that CUDA's own libraries loaded when they first needed it stays for the process.
fn is_the_runtime_s_code(record: &Record, names: &dyn Names) -> bool {
    matches!(record.made.kind, Kind::Module | Kind::Library)
        && names.is_cudas_own(record.made.caller.stack)
}
