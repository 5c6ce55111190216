//! Limits of what a test takes, whether it gives it back or not.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::reading::{LevelName, Reading};
use crate::ledger::{Layer, Place, PoolName, SiteTaken, Taken};

/// The limits of one test, each inclusive and for each device by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Bytes live at once that the test made itself.
    pub(crate) allocated: Option<u64>,
    /// Bytes that an allocator holds beyond its baseline.
    pub(crate) reserved: Option<u64>,
    /// Allocations that the test makes.
    pub(crate) allocations: Option<u64>,
    /// The allocator that is meant; none for the driver.
    pub(crate) allocator: Option<&'static str>,
}

/// A [`Budget`] in data: a name there does not live as long as the process, a layer's does.
#[derive(Serialize, Deserialize)]
struct Stated {
    allocated: Option<u64>,
    reserved: Option<u64>,
    allocations: Option<u64>,
    layer: Layer,
}

impl Serialize for Budget {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let stated = Stated {
            allocated: self.allocated,
            reserved: self.reserved,
            allocations: self.allocations,
            layer: self.layer(),
        };
        stated.serialize(out)
    }
}

impl<'de> Deserialize<'de> for Budget {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let stated = Stated::deserialize(input)?;
        Ok(Self {
            allocated: stated.allocated,
            reserved: stated.reserved,
            allocations: stated.allocations,
            allocator: stated.layer.allocator_name(),
        })
    }
}

/// A limit that a test may state. In a file it is the word of the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// Bytes that the test holds at once.
    MaxAllocated,
    /// Bytes that an allocator holds from the layer below.
    MaxReserved,
    /// Allocations that the test makes.
    MaxAllocationCount,
}

/// A limit that was passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    /// Which.
    pub(crate) limit: Limit,
    /// What the test allows.
    pub(crate) allowed: u64,
    /// What it came to.
    pub(crate) reached: u64,
    /// Whose figure it is.
    pub(crate) layer: Layer,
    /// On which device.
    pub(crate) place: Place,
    /// Whose reserve, where it is a pool's.
    pub(crate) pool: Option<PoolName>,
    /// Who has part in it, the largest first.
    pub(crate) sites: Vec<SiteTaken>,
}

impl Budget {
    /// The layer that must be metered, if any.
    pub(crate) fn metered(&self) -> Option<Layer> {
        (self.allocated.is_some() || self.allocations.is_some()).then(|| self.layer())
    }

    fn layer(&self) -> Layer {
        self.allocator.map_or(Layer::DRIVER, Layer::allocator)
    }

    /// Every limit that what a test took passes.
    pub(crate) fn passed_by(&self, taken: Vec<Taken>) -> Vec<Over> {
        let mut over = Vec::new();
        let on_devices = taken.into_iter().filter(|taken| taken.place != Place::HOST);
        for taken in on_devices {
            let figures = [
                (
                    Limit::MaxAllocated,
                    self.allocated,
                    taken.peak,
                    taken.at_peak,
                ),
                (
                    Limit::MaxAllocationCount,
                    self.allocations,
                    taken.made,
                    taken.by_site,
                ),
            ];
            for (limit, allowed, reached, sites) in figures {
                over.extend(
                    allowed
                        .filter(|allowed| reached > *allowed)
                        .map(|allowed| Over {
                            limit,
                            allowed,
                            reached,
                            layer: self.layer(),
                            place: taken.place,
                            pool: None,
                            sites,
                        }),
                );
            }
        }
        over
    }

    /// Every reserve that has risen above its limit from `before` to `at_most`.
    pub(crate) fn passed_by_reserve(&self, before: &Reading, at_most: &Reading) -> Vec<Over> {
        let Some(allowed) = self.reserved else {
            return Vec::new();
        };
        let is_meant = |name: &LevelName| match (name, self.allocator) {
            (LevelName::Pool(_), None) => true,
            (LevelName::Probe(_), Some(_)) => *name == LevelName::Probe(self.layer()),
            _ => false,
        };
        let meant = at_most.levels.iter().filter(|level| is_meant(&level.name));
        let over = meant.filter_map(|level| {
            let was = before.level(&level.name, level.place);
            let was = was.and_then(|level| level.reserved).unwrap_or(0);
            let reached = level.reserved?.saturating_sub(was);
            (reached > allowed).then(|| Over {
                limit: Limit::MaxReserved,
                allowed,
                reached,
                layer: self.layer(),
                place: level.place,
                pool: level.name.pool(),
                sites: Vec::new(),
            })
        });
        over.collect()
    }
}

impl Limit {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::MaxAllocated,
        Self::MaxReserved,
        Self::MaxAllocationCount,
    ];

    /// The option that sets it: `max_allocated`.
    #[must_use]
    pub const fn option(self) -> &'static str {
        match self {
            Self::MaxAllocated => "max_allocated",
            Self::MaxReserved => "max_reserved",
            Self::MaxAllocationCount => "max_allocation_count",
        }
    }
}

impl Over {
    /// Whether `other`, of another run, is the same limit passed.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let limit = |over: &Self| (over.limit, over.layer, over.place);
        limit(self) == limit(other) && self.pool == other.pool
    }
}

/// Adds the limits that a further run passed: of each, the run that came furthest counts.
pub(crate) fn add_over(all: &mut Vec<Over>, more: &[Over]) {
    for new in more {
        match all.iter_mut().find(|known| known.is_like(new)) {
            Some(known) if known.reached < new.reached => *known = new.clone(),
            Some(_) => {}
            None => all.push(new.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, Limit, Place, PoolName, Taken, add_over};
    use crate::judge::{Level, LevelName, Reading};

    fn taken(place: Place, made: u64, peak: u64) -> Taken {
        Taken {
            place,
            made,
            peak,
            at_peak: Vec::new(),
            by_site: Vec::new(),
        }
    }

    fn limits(budget: Budget, taken: Vec<Taken>) -> Vec<(Limit, u64)> {
        let over = budget.passed_by(taken);
        over.iter().map(|over| (over.limit, over.reached)).collect()
    }

    #[test]
    fn a_limit_is_inclusive_and_of_each_device() {
        let budget = Budget {
            allocated: Some(100),
            allocations: Some(2),
            ..Budget::default()
        };
        let device = Place::cuda;
        assert_eq!(limits(budget, vec![taken(device(0), 2, 100)]), []);
        assert_eq!(
            limits(
                budget,
                vec![taken(device(0), 2, 60), taken(device(1), 2, 60)]
            ),
            []
        );
        assert_eq!(
            limits(budget, vec![taken(device(0), 3, 101)]),
            [(Limit::MaxAllocated, 101), (Limit::MaxAllocationCount, 3)]
        );
        assert_eq!(
            limits(budget, vec![taken(Place::HOST, 9, 999)]),
            [],
            "no device"
        );
    }

    #[test]
    fn of_several_runs_the_one_that_came_furthest_counts() {
        let budget = Budget {
            allocated: Some(100),
            ..Budget::default()
        };
        let run = |peak| budget.passed_by(vec![taken(Place::cuda(0), 1, peak)]);
        let mut all = run(100);
        for peak in [150, 300, 200] {
            add_over(&mut all, &run(peak));
        }
        let reached: Vec<_> = all.iter().map(|over| over.reached).collect();
        assert_eq!(reached, [300]);
    }

    #[test]
    fn a_reserve_counts_from_its_baseline() {
        let reserve = |reserved| Reading {
            levels: vec![Level {
                name: LevelName::Pool(PoolName::Default),
                place: Place::cuda(0),
                allocated: 0,
                peak: None,
                reserved: Some(reserved),
            }],
            ..Reading::default()
        };
        let budget = Budget {
            reserved: Some(32),
            ..Budget::default()
        };
        assert_eq!(budget.passed_by_reserve(&reserve(8), &reserve(40)), []);
        let over = budget.passed_by_reserve(&reserve(8), &reserve(41));
        assert_eq!(
            (over[0].reached, over[0].pool),
            (33, Some(PoolName::Default))
        );
        let other = Budget {
            allocator: Some("tensor"),
            ..budget
        };
        assert_eq!(other.passed_by_reserve(&reserve(8), &reserve(41)), []);
    }
}
