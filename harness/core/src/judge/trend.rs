//! Detects increases from each snapshot of a program to the next. This resembles the detection of
//! growth in rounds, but is based on the memory held at one moment.

use std::iter;

use serde::{Deserialize, Serialize};

use super::usage::gains_always;
use crate::call_site::allocators;
use crate::ledger::{Amount, Kind, Layer, Place};
use crate::report::{Finding, FindingKind};

/// The number of consecutive snapshots in which something must grow. A program that is still
/// starting up can grow in three or four snapshots by chance.
pub const ENOUGH: usize = 5;

/// The trend shown by a program's snapshots so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Trend {
    /// How many snapshots were taken.
    pub taken: u64,
    lines: Vec<TrendLine>,
}

/// A subject whose trend is followed, and its recent levels.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TrendLine {
    pub(super) what: TrendSubject,
    /// The subject's levels at the last snapshots, the oldest first.
    pub(super) levels: Vec<Amount>,
}

/// The subject of a trend: a call site, or all segments of a caching allocator, which may allocate
/// its next segment from any call site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TrendSubject {
    /// The allocator. `None` for a call site, which the other fields identify.
    pub(super) allocator: Option<String>,
    place: Place,
    layer: Layer,
    resource: Option<Kind>,
    fingerprint: String,
    location: String,
}

impl TrendSubject {
    /// Returns each subject that `finding` is part of.
    pub(super) fn all_of(finding: &Finding) -> impl Iterator<Item = Self> {
        let site = Self {
            allocator: None,
            place: finding.place,
            layer: finding.layer,
            resource: finding.resource,
            fingerprint: finding.site.fingerprint.clone(),
            location: finding.site.location(),
        };
        let is_memory = finding.resource.is_some_and(|kind| !kind.is_handle());
        let is_segment = is_memory && finding.layer == Layer::DRIVER;
        let allocator = is_segment.then(|| allocators::of(&finding.site.frames));
        let allocator = allocator.flatten().map(|allocator| Self {
            allocator: Some(allocator.name.to_owned()),
            place: finding.place,
            ..Self::default()
        });
        iter::once(site).chain(allocator)
    }
}

impl Trend {
    /// Adds the findings of another snapshot.
    pub fn add(&mut self, held: &[Finding]) {
        let mut now: Vec<(TrendSubject, Amount)> = Vec::new();
        for finding in held.iter().filter(|it| it.kind == FindingKind::Leaked) {
            let amount = finding.amount();
            for what in TrendSubject::all_of(finding) {
                match now.iter_mut().find(|(known, _)| *known == what) {
                    Some((_, sum)) => *sum = sum.plus(amount),
                    None => now.push((what, amount)),
                }
            }
        }
        self.taken += 1;
        for line in &mut self.lines {
            let at = now.iter().position(|(what, _)| *what == line.what);
            let level = at.map_or(Amount::default(), |at| now.swap_remove(at).1);
            if line.levels.len() == ENOUGH {
                line.levels.remove(0);
            }
            line.levels.push(level);
        }
        self.lines
            .extend(now.into_iter().map(|(what, level)| TrendLine {
                what,
                levels: vec![level],
            }));
    }

    /// Returns what grew in each of the last snapshots.
    pub(super) fn growing(&self) -> impl Iterator<Item = &TrendLine> {
        let grows = |line: &&TrendLine| line.levels.len() == ENOUGH && gains_always(&line.levels);
        self.lines.iter().filter(grows)
    }
}

#[cfg(test)]
mod tests {
    use super::{ENOUGH, Trend};
    use crate::judge::finding::{Found, of_sum};
    use crate::judge::growth::mark;
    use crate::ledger::{Layer, Place};
    use crate::report::{Finding, FindingKind};

    fn held(count: u64) -> Finding {
        Finding {
            count,
            bytes: 8 * count,
            ..of_sum(FindingKind::Leaked, Layer::DRIVER, Place::cuda(0), 8)
        }
    }

    /// Returns the levels of the trend if it grows. The call site holds one of these counts at each
    /// snapshot.
    fn levels(counts: &[u64]) -> Option<Vec<u64>> {
        let mut trend = Trend::default();
        for count in counts {
            let now = (*count > 0).then(|| held(*count));
            trend.add(&now.into_iter().collect::<Vec<_>>());
        }
        let mut found = vec![Found::sum(held(*counts.last()?))];
        mark(&trend, &mut found);
        let grown = found
            .iter()
            .find(|it| it.finding.kind == FindingKind::Grew)?;
        Some(grown.finding.rounds.iter().map(|left| left.count).collect())
    }

    #[test]
    fn memory_that_rises_at_each_of_the_last_snapshots_grows() {
        assert_eq!(levels(&[1, 2, 3, 4, 5]), Some(vec![1, 2, 3, 4, 5]));
        assert_eq!(levels(&[9, 0, 2, 3, 4, 5, 9]), Some(vec![2, 3, 4, 5, 9]));
        assert_eq!(levels(&[0, 1, 2, 3, 4, 5]).map(|it| it.len()), Some(ENOUGH));
    }

    #[test]
    fn memory_that_stands_still_once_or_is_too_new_does_not_grow() {
        for counts in [
            &[1, 2, 3, 4][..],
            &[1, 2, 3, 3, 4],
            &[1, 2, 3, 4, 5, 5],
            &[5, 4, 3, 2, 1],
        ] {
            assert_eq!(levels(counts), None, "{counts:?}");
        }
    }
}
