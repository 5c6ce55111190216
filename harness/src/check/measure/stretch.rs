//! A scope between two readings: what is live at its end and was made inside.

mod look;

use std::thread;
use std::time::{Duration, Instant};

use gpu_leak_interpose as threads;

use super::body::End;
use super::measured::Measured;
use super::remarks;
use super::sources::{self, Poisoned};
use super::timeline;
use super::uncovered::{Probes, take_uncovered};
use crate::check::family::Family;
use crate::check::names::{Live, Names};
use crate::check::recording::{self, Began, BodyEnded, Finished, Limits, Looked, Seen};
use crate::check::scopes::members;
use crate::check::scopes::open::{Open, current};
use crate::check::turn::company::Company;
use crate::config::Policy;
use crate::judge::{Budget, Claims, Over, Reading};
use crate::ledger::{self, Ledger, Mark, Returned, ScopeId, Watch};

pub(crate) use look::Left;
pub(in crate::check) use look::is_the_runtime_s_code;

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
    pub(crate) fn count_since(&mut self, moment: u64) {
        self.since = moment;
    }

    /// The body is at its end: to be told before anything is given back.
    pub(crate) fn end_body(&self) -> Ended {
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
        let family = members::family(self.scope);
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
        let uncovered = take_uncovered(&mut left.held, &Probes::of(&left.seen), names);
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
            primaries: left.primaries,
            owner_unknown: left.owner_unknown,
            poisoned_before,
            poisoned_inside,
            saw_events,
            timeline,
        }
    }
}
