//! Limits on what a test uses while it runs, whether or not it frees that.
//!
//! A limit fails the test if every run exceeds it, or two of three including the last one. If only
//! the first run exceeds it, one-time set-up was the cause. A reserve that others could have moved in
//! any run is only a note.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::finding::{Found, confirmation, repeats};
use super::input::{CheckInput, RunInput};
use super::peaks::{call, reusable, shares};
use super::usage::{Amount, LayerName, Usage};
use crate::ledger::{InTurn, Kind, Layer, MeterReading, Place, PoolName, SiteUsage};
use crate::report::{Budget, Finding, FindingKind, Limit, Share, When};
use crate::units::exact_size;

/// The limits of one test, each inclusive and for each device by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes live at once that the test made itself.
    pub allocated: Option<u64>,
    /// Bytes that the test allocates in total.
    #[serde(default)]
    pub total: Option<u64>,
    /// Bytes that an allocator holds beyond its baseline.
    pub reserved: Option<u64>,
    /// Allocations that the test makes.
    pub allocations: Option<u64>,
    /// The allocator that is meant.
    pub layer: Layer,
}

/// A limit that a run exceeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageOverBudget {
    /// Which.
    pub limit: Limit,
    /// What the test allows.
    pub allowed: u64,
    /// What it came to.
    pub reached: u64,
    /// Whose figure it is.
    pub layer: Layer,
    /// On which device.
    pub place: Place,
    /// The pool, if the limit is about a pool's reserve.
    pub pool: Option<PoolName>,
    /// Who has part in it, the largest first.
    pub sites: Vec<SiteUsage>,
    /// The event that reached the peak; 0 if the limit is about something else.
    #[serde(default)]
    pub peak_at: u64,
    /// Allocations that followed one another, if the limit is about all of them.
    #[serde(default)]
    pub in_turn: Vec<InTurn>,
}

impl Limits {
    /// Returns the layer that must be metered, if any.
    pub fn metered(&self) -> Option<Layer> {
        let metered = [self.allocated, self.total, self.allocations];
        metered.iter().any(Option::is_some).then_some(self.layer)
    }

    /// Returns the value of one of them, if it is set.
    const fn get(&self, limit: Limit) -> Option<u64> {
        match limit {
            Limit::MaxAllocated => self.allocated,
            Limit::MaxTotalAllocated => self.total,
            Limit::MaxReserved => self.reserved,
            Limit::MaxAllocationCount => self.allocations,
        }
    }

    /// Returns `limit` as exceeded, if it is set and `reached` is more.
    fn passed(
        &self,
        limit: Limit,
        reached: u64,
        place: Place,
        pool: Option<PoolName>,
    ) -> Option<UsageOverBudget> {
        let allowed = self.get(limit).filter(|allowed| reached > *allowed)?;
        Some(UsageOverBudget {
            limit,
            allowed,
            reached,
            layer: self.layer,
            place,
            pool,
            sites: Vec::new(),
            peak_at: 0,
            in_turn: Vec::new(),
        })
    }

    /// Returns every limit that these readings exceed.
    pub fn passed_by(&self, taken: Vec<MeterReading>) -> Vec<UsageOverBudget> {
        let on_devices = taken.into_iter().filter(|taken| taken.place != Place::HOST);
        let over = on_devices.flat_map(|taken| {
            let passed = |limit, reached, sites| {
                let over = self.passed(limit, reached, taken.place, None)?;
                let is_peak = limit == Limit::MaxAllocated;
                Some(UsageOverBudget {
                    sites,
                    peak_at: if is_peak { taken.peak_at } else { 0 },
                    in_turn: if is_peak {
                        Vec::new()
                    } else {
                        taken.in_turn.clone()
                    },
                    ..over
                })
            };
            [
                passed(Limit::MaxAllocated, taken.peak, taken.at_peak),
                passed(Limit::MaxTotalAllocated, taken.total, taken.by_bytes),
                passed(Limit::MaxAllocationCount, taken.made, taken.by_count),
            ]
        });
        over.flatten().collect()
    }

    /// Returns every reserve that rose above its limit between `before` and `at_most`.
    pub fn passed_by_reserve(&self, before: &Usage, at_most: &Usage) -> Vec<UsageOverBudget> {
        let is_meant = |name: &LayerName| match name {
            LayerName::Pool(_) => self.layer == Layer::DRIVER,
            LayerName::Probe(layer) => *layer == self.layer,
            LayerName::Layer(_) => false,
        };
        let meant = at_most.layers.iter().filter(|usage| is_meant(&usage.name));
        let over = meant.filter_map(|usage| {
            let was = before.layer(&usage.name, usage.place);
            let was = was.and_then(|usage| usage.reserved).unwrap_or(0);
            let reached = usage.reserved?.saturating_sub(was);
            let pool = usage.name.pool();
            self.passed(Limit::MaxReserved, reached, usage.place, pool)
        });
        over.collect()
    }
}

impl UsageOverBudget {
    /// Whether `other`, from another run, is about the same limit.
    pub fn is_like(&self, other: &Self) -> bool {
        let limit = |over: &Self| (over.limit, over.layer, over.place);
        limit(self) == limit(other) && self.pool == other.pool
    }
}

/// The number of source lines that a finding names.
const NAMED: usize = 10;

/// Returns the limits that any run exceeded, each once.
fn exceeded(input: &CheckInput) -> Vec<&UsageOverBudget> {
    let mut known: Vec<&UsageOverBudget> = Vec::new();
    for over in input.judged_runs().iter().flat_map(|run| &run.over_budget) {
        if !known.iter().any(|known| known.is_like(over)) {
            known.push(over);
        }
    }
    known
}

/// Whether this is a reserve in which others could have had a share.
fn is_shared(over: &UsageOverBudget, input: &CheckInput) -> bool {
    let mut runs = input.judged_runs().iter();
    over.limit == Limit::MaxReserved && runs.any(|run| run.others.may_have_moved_sums())
}

/// Returns notes about reserves that exceeded a limit while others could have moved them.
pub(crate) fn shared(input: &CheckInput) -> impl Iterator<Item = String> {
    let shared = exceeded(input).into_iter();
    let shared = shared.filter(move |over| is_shared(over, input));
    shared.map(|over| {
        format!(
            "up to {} more reserved by {} on {} than before the test, above the budget of {}: not \
             judged, because something outside this check may have reserved it",
            exact_size(over.reached),
            over.layer,
            over.place,
            exact_size(over.allowed),
        )
    })
}

/// Returns the budgets that the runs exceeded.
pub(crate) fn findings(input: &CheckInput) -> Vec<Found> {
    let runs = input.judged_runs();
    let mut known = exceeded(input);
    known.retain(|over| !is_shared(over, input));
    let finding = |over: &&UsageOverBudget| {
        let of_run = |run: &RunInput| {
            let mut all = run.over_budget.iter();
            all.find(|other| other.is_like(over)).cloned()
        };
        let of_runs: Vec<_> = runs.iter().map(of_run).collect();
        finding(&of_runs, input)
    };
    known.iter().filter_map(finding).map(Found::sum).collect()
}

/// Whether only the second of two runs exceeds a limit, so that a third run must decide.
pub(crate) fn is_undecided(input: &CheckInput) -> bool {
    let [first, second] = input.judged_runs() else {
        return false;
    };
    let is_new = |over: &UsageOverBudget| !first.over_budget.iter().any(|it| it.is_like(over));
    second.over_budget.iter().any(is_new)
}

/// Returns the finding for one limit, from what each run that exceeded it used.
fn finding(of_runs: &[Option<UsageOverBudget>], input: &CheckInput) -> Option<Finding> {
    let in_runs: Vec<bool> = of_runs.iter().map(Option::is_some).collect();
    let rounds = input.facts.rounds > 1;
    let mut exceeding = (of_runs.iter().zip(input.judged_runs()))
        .filter_map(|(over, run)| Some((over.as_ref()?, run)));
    let (over, run) = match rounds {
        true => exceeding.max_by_key(|(over, _)| over.reached),
        false => exceeding.next(),
    }?;
    let kind = match rounds || in_runs.len() == 1 || repeats(&in_runs) {
        true => FindingKind::OverBudget,
        false => FindingKind::FirstUse,
    };
    let shares = shares(&over.sites, run, &input.names, NAMED);
    // A line may have several call sites: the largest one stands for it.
    let mut sites = over
        .sites
        .iter()
        .map(|site| input.names.site(site.stack, Kind::Linear));
    let site = sites.find(|site| {
        shares
            .first()
            .is_some_and(|share| share.at == site.location())
    });
    let last = of_runs.last().and_then(Option::as_ref);
    let last = last.filter(|_| kind == FindingKind::OverBudget && !rounds);
    Some(Finding {
        pool: over.pool,
        count: 1,
        bytes: match over.limit {
            Limit::MaxAllocationCount => 0,
            _ => over.reached,
        },
        confirmed: last.and_then(|last| {
            let reached = Amount {
                count: 1,
                bytes: last.reached,
            };
            confirmation(&in_runs, reached)
        }),
        budget: Some(Budget {
            limit: over.limit,
            allowed: over.allowed,
            reached: over.reached,
            when: when(over, run),
            // Everything is the test's own.
            shares: shares
                .into_iter()
                .map(|share| Share {
                    earlier: 0,
                    ..share
                })
                .collect(),
            reusable: reusable(&over.in_turn, &input.names),
        }),
        ..Finding::new(kind, over.layer, over.place, site.unwrap_or_default())
    })
}

/// Returns the call of the run that reached the peak.
fn when(over: &UsageOverBudget, run: &RunInput) -> Option<When> {
    let call = Some(call(run, over.peak_at)).filter(|call| *call != 0)?;
    Some(When {
        first: call,
        last: call,
        of: run.calls?.max(call),
    })
}

/// Returns a note about a limit that cannot apply because nothing was reported in its layer.
pub(crate) fn unbound(input: &CheckInput) -> Option<String> {
    let limits = &input.facts.budget;
    let stated = Limit::ALL
        .into_iter()
        .filter(|limit| limits.get(*limit).is_some());
    let stated: Vec<&str> = stated.map(Limit::option).collect();
    let layer = limits.layer;
    let usages = |usage: &Usage| usage.layers.iter().any(|usage| usage.name.layer() == layer);
    let is_bound = input
        .runs
        .iter()
        // An allocator that ended with its device is in no usage.
        .any(|run| usages(&run.baseline) || usages(&run.end) || !run.over_budget.is_empty());
    if stated.is_empty() || is_bound {
        return None;
    }
    let all = input.runs.iter().flat_map(|run| &run.end.layers);
    let others: BTreeSet<String> = all.map(|usage| usage.name.to_string()).collect();
    let others: Vec<String> = others.into_iter().collect();
    (!others.is_empty()).then(|| {
        format!(
            "{} limits nothing, because nothing was allocated in the layer {layer}; the layers \
             that were seen are {}",
            stated.join(" and "),
            others.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{Layer, Limit, Limits, MeterReading, Place, PoolName};
    use crate::judge::{LayerName, LayerUsage, Usage};
    use crate::ledger::{InTurn, SiteUsage, StackId};

    fn taken(place: Place, made: u64, peak: u64) -> MeterReading {
        MeterReading {
            place,
            layer: Layer::DRIVER,
            made,
            total: 10 * peak,
            peak,
            peak_at: 0,
            at_peak: Vec::new(),
            by_bytes: Vec::new(),
            by_count: Vec::new(),
            in_turn: Vec::new(),
            lifetimes: Vec::new(),
            lost: 0,
        }
    }

    fn passed(limits: Limits, taken: Vec<MeterReading>) -> Vec<(Limit, u64)> {
        let over = limits.passed_by(taken);
        over.iter().map(|over| (over.limit, over.reached)).collect()
    }

    #[test]
    fn a_limit_is_inclusive_and_of_each_device() {
        let limits = Limits {
            allocated: Some(100),
            allocations: Some(2),
            ..Limits::default()
        };
        let device = Place::cuda;
        assert_eq!(passed(limits, vec![taken(device(0), 2, 100)]), []);
        assert_eq!(
            passed(
                limits,
                vec![taken(device(0), 2, 60), taken(device(1), 2, 60)]
            ),
            []
        );
        assert_eq!(
            passed(limits, vec![taken(device(0), 3, 101)]),
            [(Limit::MaxAllocated, 101), (Limit::MaxAllocationCount, 3)]
        );
        let in_total = Limits {
            total: Some(1000),
            ..Limits::default()
        };
        assert_eq!(passed(in_total, vec![taken(device(0), 2, 100)]), []);
        assert_eq!(
            passed(in_total, vec![taken(device(0), 2, 101)]),
            [(Limit::MaxTotalAllocated, 1010)]
        );
        assert_eq!(
            passed(limits, vec![taken(Place::HOST, 9, 999)]),
            [],
            "no device"
        );
    }

    #[test]
    fn what_exceeds_a_limit_says_who_had_part_in_it() {
        let site = |line| SiteUsage {
            stack: StackId(line),
            count: 1,
            bytes: 60,
            allocated: (0, 0),
        };
        let reading = MeterReading {
            peak_at: 7,
            at_peak: vec![site(1)],
            by_bytes: vec![site(2)],
            by_count: vec![site(3)],
            in_turn: vec![InTurn {
                stack: StackId(4),
                bytes: 60,
                count: 2,
            }],
            ..taken(Place::cuda(0), 3, 60)
        };
        let limits = Limits {
            allocated: Some(1),
            total: Some(1),
            allocations: Some(1),
            ..Limits::default()
        };
        let over = limits.passed_by(vec![reading]);
        let exceeded = over.iter().map(|over| {
            let lines: Vec<_> = over.sites.iter().map(|site| site.stack.0).collect();
            (over.limit, lines, over.peak_at, over.in_turn.len())
        });
        assert_eq!(
            exceeded.collect::<Vec<_>>(),
            [
                (Limit::MaxAllocated, vec![1], 7, 0),
                (Limit::MaxTotalAllocated, vec![2], 0, 1),
                (Limit::MaxAllocationCount, vec![3], 0, 1),
            ]
        );
        assert_eq!(limits.metered(), Some(Layer::DRIVER));
        let of_cache = Limits {
            reserved: Some(1),
            layer: Layer::allocator("budget-cache"),
            ..Limits::default()
        };
        assert_eq!(of_cache.metered(), None, "nobody meters a reserve");
    }

    #[test]
    fn a_reserve_counts_from_its_baseline() {
        let reserve = |reserved| Usage {
            layers: vec![LayerUsage {
                name: LayerName::Pool(PoolName::Default),
                place: Place::cuda(0),
                allocated: 0,
                peak: None,
                reserved: Some(reserved),
                reported: None,
                in_motion: 0,
            }],
            ..Usage::default()
        };
        let limits = Limits {
            reserved: Some(32),
            ..Limits::default()
        };
        assert_eq!(limits.passed_by_reserve(&reserve(8), &reserve(40)), []);
        let over = limits.passed_by_reserve(&reserve(8), &reserve(41));
        assert_eq!(
            (over[0].reached, over[0].pool),
            (33, Some(PoolName::Default))
        );
        let other = Limits {
            layer: Layer::allocator("tensor"),
            ..limits
        };
        assert_eq!(other.passed_by_reserve(&reserve(8), &reserve(41)), []);
        let of_cache = |layer| {
            let mut usage = reserve(41);
            usage.layers[0].name = LayerName::Probe(layer);
            other.passed_by_reserve(&Usage::default(), &usage).len()
        };
        let layers = [other.layer, Layer::allocator("another")];
        assert_eq!(layers.map(of_cache), [1, 0]);
    }
}
