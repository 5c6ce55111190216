//! Limits of what a test takes, whether it gives it back or not.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::reading::{LevelName, Reading};
use crate::ledger::{Layer, Place, SiteTaken, Taken};

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

/// Which limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// `max_allocated`.
    Allocated,
    /// `max_reserved`.
    Reserved,
    /// `max_allocation_count`.
    Allocations,
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
    /// Whose reserve, where not the layer's.
    pub(crate) holder: Option<String>,
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
                (Limit::Allocated, self.allocated, taken.peak, taken.at_peak),
                (
                    Limit::Allocations,
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
                            holder: None,
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
                limit: Limit::Reserved,
                allowed,
                reached,
                layer: self.layer(),
                place: level.place,
                holder: Some(level.name.to_string()),
                sites: Vec::new(),
            })
        });
        over.collect()
    }
}

impl Limit {
    /// The option that sets it.
    pub(crate) const fn option(self) -> &'static str {
        match self {
            Self::Allocated => "max_allocated",
            Self::Reserved => "max_reserved",
            Self::Allocations => "max_allocation_count",
        }
    }
}

impl Over {
    /// Whether `other`, of another run, is the same limit passed.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let limit = |over: &Self| (over.limit, over.layer, over.place);
        limit(self) == limit(other) && self.holder == other.holder
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
    use super::{Budget, Limit, Place, Taken, add_over};
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
            [(Limit::Allocated, 101), (Limit::Allocations, 3)]
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
                name: LevelName::Pool("pool 0".into()),
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
            (over[0].reached, over[0].holder.as_deref()),
            (33, Some("pool 0"))
        );
        let other = Budget {
            allocator: Some("tensor"),
            ..budget
        };
        assert_eq!(other.passed_by_reserve(&reserve(8), &reserve(41)), []);
    }
}
