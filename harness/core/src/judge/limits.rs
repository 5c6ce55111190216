//! The limits of a test, and which of them a run exceeded.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::usage::{LayerUsage, Usage};
use crate::ledger::{InTurn, Layer, MeterReading, Place, PoolName, SiteUsage};
use crate::report::Limit;

macro_rules! limits {
    ($($(#[$doc:meta])* $option:ident: $limit:ident,)*) => {
        /// The limits of one test. Each is inclusive and applies per device.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Limits {
            $($(#[$doc])* pub $option: Option<u64>,)*
            /// The allocator to which they apply.
            pub layer: Layer,
        }

        impl Limits {
            /// Returns each limit that is set.
            pub(super) fn set(&self) -> impl Iterator<Item = (Limit, u64)> {
                let limits = [$((Limit::$limit, self.$option)),*];
                limits.into_iter().filter_map(|(limit, allowed)| Some((limit, allowed?)))
            }
        }
    };
}
gpu_leak_check_options::budgets!(limits);

/// A limit that a run exceeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageOverBudget {
    /// The kind of the limit.
    pub limit: Limit,
    /// The highest value that the test allows.
    pub allowed: u64,
    /// The value that was reached.
    pub reached: u64,
    /// The allocator that the limit applies to.
    pub layer: Layer,
    /// The device.
    pub place: Place,
    /// The pool, if the limit is about a pool's reserve.
    pub pool: Option<PoolName>,
    /// The call sites that contributed to it, the largest first.
    pub sites: Vec<SiteUsage>,
    /// The sequence number of the event that reached the peak, or 0 if the limit is not about a
    /// peak.
    pub peak_at: u64,
    /// Allocations that were live one after another, if the limit is about the sum or the number of
    /// all allocations.
    pub in_turn: Vec<InTurn>,
}

impl Limits {
    /// Returns the layer that must be metered, if any.
    pub fn metered(&self) -> Option<Layer> {
        let is_metered = self.set().any(|(limit, _)| limit != Limit::MaxReserved);
        is_metered.then_some(self.layer)
    }

    /// Returns every limit that a run exceeded, and every kind of limit that could apply to it.
    /// `readings` are the meter readings of the run's scope, `before` is the usage before the run,
    /// and `highest` contains the highest reserves during the run.
    pub fn exceeded(
        &self,
        readings: Vec<MeterReading>,
        before: &Usage,
        highest: &Usage,
    ) -> (Vec<UsageOverBudget>, Vec<Limit>) {
        let on_devices = readings.into_iter().filter(|it| it.place != Place::HOST);
        let metered = on_devices.flat_map(|reading| self.metered_figures(reading));
        let reserves = highest.layers.iter();
        let reserves = reserves.filter_map(|usage| self.reserve_figure(usage, before));
        let mut bound = BTreeSet::new();
        let over = metered.chain(reserves).filter_map(|figure| {
            bound.insert(figure.limit);
            let is_exceeded = |it: &(Limit, u64)| it.0 == figure.limit && figure.reached > it.1;
            let (_, allowed) = self.set().find(is_exceeded)?;
            Some(UsageOverBudget { allowed, ..figure })
        });
        (over.collect(), bound.into_iter().collect())
    }

    /// Returns a figure to which `limit` applies if the limit is set.
    fn figure(&self, limit: Limit, reached: u64, place: Place) -> UsageOverBudget {
        UsageOverBudget {
            limit,
            allowed: 0,
            reached,
            layer: self.layer,
            place,
            pool: None,
            sites: Vec::new(),
            peak_at: 0,
            in_turn: Vec::new(),
        }
    }

    fn metered_figures(&self, reading: MeterReading) -> [UsageOverBudget; 3] {
        let figure = |limit, reached| self.figure(limit, reached, reading.place);
        let mut by_count = reading.by_bytes.clone();
        by_count.sort_by_key(|site| (Reverse(site.count), site.stack));
        [
            UsageOverBudget {
                sites: reading.at_peak,
                peak_at: reading.peak_at,
                ..figure(Limit::MaxAllocated, reading.peak)
            },
            UsageOverBudget {
                sites: reading.by_bytes,
                in_turn: reading.in_turn.clone(),
                ..figure(Limit::MaxTotalAllocated, reading.total)
            },
            UsageOverBudget {
                sites: by_count,
                in_turn: reading.in_turn,
                ..figure(Limit::MaxAllocationCount, reading.made)
            },
        ]
    }

    /// Returns by how much the reserve of `usage` rose, if it belongs to the layer of these limits.
    fn reserve_figure(&self, usage: &LayerUsage, before: &Usage) -> Option<UsageOverBudget> {
        let is_of_layer = usage.name.layer() == self.layer;
        let risen = before.rise_to(usage, LayerUsage::reserve);
        (is_of_layer && usage.reserved.is_some()).then(|| UsageOverBudget {
            pool: usage.name.pool(),
            ..self.figure(Limit::MaxReserved, risen, usage.place)
        })
    }
}

impl UsageOverBudget {
    /// Whether `other`, from another run, is about the same limit.
    pub fn is_like(&self, other: &Self) -> bool {
        let limit = |over: &Self| (over.limit, over.layer, over.place, over.pool);
        limit(self) == limit(other)
    }
}

#[cfg(test)]
mod tests {
    use super::{Layer, Limit, Limits, MeterReading, Place, PoolName};
    use crate::judge::{LayerName, LayerUsage, Usage};
    use crate::ledger::{InTurn, SiteUsage, StackId};

    fn reading(place: Place, made: u64, peak: u64) -> MeterReading {
        MeterReading {
            place,
            layer: Layer::DRIVER,
            made,
            total: 10 * peak,
            peak,
            peak_at: 0,
            at_peak: Vec::new(),
            by_bytes: Vec::new(),
            in_turn: Vec::new(),
            lifetimes: Vec::new(),
            lost: 0,
        }
    }

    fn exceeded(limits: Limits, readings: Vec<MeterReading>) -> Vec<(Limit, u64)> {
        let (over, _) = limits.exceeded(readings, &Usage::default(), &Usage::default());
        over.iter().map(|over| (over.limit, over.reached)).collect()
    }

    #[test]
    fn a_limit_is_inclusive_and_applies_to_each_device() {
        let limits = Limits {
            max_allocated: Some(100),
            max_allocation_count: Some(2),
            ..Limits::default()
        };
        let device = Place::cuda;
        assert_eq!(exceeded(limits, vec![reading(device(0), 2, 100)]), []);
        assert_eq!(
            exceeded(
                limits,
                vec![reading(device(0), 2, 60), reading(device(1), 2, 60)]
            ),
            []
        );
        assert_eq!(
            exceeded(limits, vec![reading(device(0), 3, 101)]),
            [(Limit::MaxAllocated, 101), (Limit::MaxAllocationCount, 3)]
        );
        let in_total = Limits {
            max_total_allocated: Some(1000),
            ..Limits::default()
        };
        assert_eq!(exceeded(in_total, vec![reading(device(0), 2, 100)]), []);
        assert_eq!(
            exceeded(in_total, vec![reading(device(0), 2, 101)]),
            [(Limit::MaxTotalAllocated, 1010)]
        );
        assert_eq!(
            exceeded(limits, vec![reading(Place::HOST, 9, 999)]),
            [],
            "no device"
        );
    }

    #[test]
    fn an_exceeded_limit_lists_the_contributing_call_sites() {
        let site = |line| SiteUsage {
            stack: StackId(line),
            count: 1,
            bytes: 60,
            allocated: (0, 0),
        };
        let reading = MeterReading {
            peak_at: 7,
            at_peak: vec![site(1)],
            by_bytes: vec![
                site(2),
                SiteUsage {
                    count: 2,
                    ..site(3)
                },
            ],
            in_turn: vec![InTurn {
                stack: StackId(4),
                bytes: 60,
                count: 2,
            }],
            ..reading(Place::cuda(0), 3, 60)
        };
        let limits = Limits {
            max_allocated: Some(1),
            max_total_allocated: Some(1),
            max_allocation_count: Some(1),
            ..Limits::default()
        };
        let (over, _) = limits.exceeded(vec![reading], &Usage::default(), &Usage::default());
        let exceeded = over.iter().map(|over| {
            let lines: Vec<_> = over.sites.iter().map(|site| site.stack.0).collect();
            (over.limit, lines, over.peak_at, over.in_turn.len())
        });
        assert_eq!(
            exceeded.collect::<Vec<_>>(),
            [
                (Limit::MaxAllocated, vec![1], 7, 0),
                (Limit::MaxTotalAllocated, vec![2, 3], 0, 1),
                (Limit::MaxAllocationCount, vec![3, 2], 0, 1),
            ]
        );
        assert_eq!(limits.metered(), Some(Layer::DRIVER));
        let of_cache = Limits {
            max_reserved: Some(1),
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
                rounding: 0,
            }],
            ..Usage::default()
        };
        let limits = Limits {
            max_reserved: Some(32),
            ..Limits::default()
        };
        let with =
            |limits: Limits, before| limits.exceeded(Vec::new(), &reserve(before), &reserve(41));
        let bound = vec![Limit::MaxReserved];
        assert_eq!(with(limits, 9), (Vec::new(), bound));
        let (over, _) = with(limits, 8);
        assert_eq!(
            (over[0].reached, over[0].pool),
            (33, Some(PoolName::Default))
        );
        let other = Limits {
            layer: Layer::allocator("tensor"),
            ..limits
        };
        assert_eq!(with(other, 8), (Vec::new(), Vec::new()));
        let of_cache = |layer| {
            let mut usage = reserve(41);
            usage.layers[0].name = LayerName::Probe(layer);
            let (over, _) = other.exceeded(Vec::new(), &Usage::default(), &usage);
            over.len()
        };
        let layers = [other.layer, Layer::allocator("another")];
        assert_eq!(layers.map(of_cache), [1, 0]);
    }
}
